"""Protected resource metadata (RFC 9728), for clients that have no token yet."""

from collections.abc import Collection, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from taskmachine.adapters.transports.auth.bearer_tokens import Unauthorized
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError

__all__ = ["challenge", "metadata", "metadata_paths", "metadata_url"]

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def metadata(
    resource_url: str, authorization_servers: Sequence[str], scopes: Collection[str]
) -> JSONObject:
    """Return the document; both revisions demand at least one authorization server."""
    if not authorization_servers:
        raise ConfigurationError("protected resource metadata needs an authorization server")
    document: JSONObject = {
        "resource": _checked(resource_url),
        "authorization_servers": list(authorization_servers),
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = sorted(scopes)
    return document


def metadata_paths(endpoint_path: str) -> list[str]:
    """Return the paths of the document: the endpoint's own, and the root."""
    path = "" if endpoint_path == "/" else endpoint_path
    return list(dict.fromkeys([_WELL_KNOWN + path, _WELL_KNOWN]))


def metadata_url(resource_url: str) -> str:
    """Return the document's URL for the URL of an endpoint."""
    parts = urlsplit(_checked(resource_url))
    return urlunsplit(parts._replace(path=metadata_paths(parts.path)[0]))


def challenge(metadata_url: str | None, unauthorized: Unauthorized, scopes: Collection[str]) -> str:
    """Return the value of `WWW-Authenticate`, with all required scopes.

    `metadata_url` is None without an authorization server, as with static tokens.
    """
    values = {
        "error": unauthorized.error,
        "error_description": unauthorized.description if unauthorized.error else None,
        "scope": " ".join(sorted(scopes)),
        "resource_metadata": metadata_url,
    }
    given = ", ".join(f"{name}={_quoted(value)}" for name, value in values.items() if value)
    return f"Bearer {given}".rstrip()


def _quoted(value: str) -> str:
    # Only visible ASCII and spaces: a line break would begin another header.
    plain = "".join(sign if " " <= sign <= "~" else "?" for sign in value)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(resource_url: str) -> str:
    try:
        parts = urlsplit(resource_url)
        is_absolute = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # half of an IPv6 address
        is_absolute = False
    if not is_absolute or "#" in resource_url:
        raise ConfigurationError(f"{resource_url!r} is not an http(s) URL without a fragment")
    return resource_url
