"""Parts of a server: HTTP, stdio, the console and authentication."""

from taskmachine.adapters.bridges.required import require

require("starlette", "server", "1.0")

from taskmachine.adapters.console import Console, LinkLogin, Login, TokenLogin  # noqa: E402
from taskmachine.adapters.server.application import make_application, serve_http  # noqa: E402
from taskmachine.adapters.server.json_log import JsonLines  # noqa: E402
from taskmachine.adapters.transports.auth.authentication import (  # noqa: E402
    Authenticator,
    HeaderAuthenticator,
    JwtAuthenticator,
    StaticTokenAuthenticator,
    Unauthorized,
)
from taskmachine.adapters.transports.auth.owners import Owners, Principal  # noqa: E402
from taskmachine.adapters.transports.connection.conversation import Conversation  # noqa: E402
from taskmachine.adapters.transports.http.application import Application  # noqa: E402
from taskmachine.adapters.transports.settings import (  # noqa: E402
    Settings,
    Transport,
    load_settings,
)
from taskmachine.adapters.transports.stdio.server import serve_stdio  # noqa: E402

__all__ = [
    "Application",
    "Authenticator",
    "Console",
    "Conversation",
    "HeaderAuthenticator",
    "JsonLines",
    "JwtAuthenticator",
    "LinkLogin",
    "Login",
    "Owners",
    "Principal",
    "Settings",
    "StaticTokenAuthenticator",
    "TokenLogin",
    "Transport",
    "Unauthorized",
    "load_settings",
    "make_application",
    "serve_http",
    "serve_stdio",
]
