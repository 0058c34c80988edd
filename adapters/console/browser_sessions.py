"""Browser sessions in a sealed cookie, and protection of forms against forgery (CSRF).

The cookie holds the owner, whether it is an admin, and the expiry.  It is sealed, so that every
replica can read it, but no browser.  The server keeps no state.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import attrs
from starlette.requests import Request
from starlette.responses import Response

from taskmachine.adapters.transports.auth.owners import ADMIN
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.sealing import BrowserSession, Sealer

__all__ = ["LONGEST_MS", "BrowserSessions"]

LONGEST_MS: Final = 8 * 3_600_000
"""Maximum duration of a session: a working day.  It ends earlier if the token expires."""


@attrs.frozen
class BrowserSessions:
    """Cookies and form tokens of all sessions.

    `clock` is in milliseconds since the epoch, `public_url` as in the settings.
    """

    sealer: Sealer
    clock: Callable[[], int]
    public_url: str | None = None

    @property
    def cookie(self) -> str:
        """The cookie's name, different for each store.

        Browsers share cookies between the ports of a host, so two servers would overwrite each
        other's cookies.
        """
        return (
            "taskmachine_"
            + self.sealer.seal_browser_session(BrowserSession("", "", False, 0))[:8].lower()
        )

    def begin(self, caller: Caller) -> BrowserSession:
        """Return a new session of an authenticated caller, which ends with its token."""
        until = self.clock() + LONGEST_MS
        if "exp" in caller.claims:
            until = int(min(until, caller.claims["exp"] * 1_000))
        return BrowserSession(
            secrets.token_urlsafe(16), caller.owner, ADMIN in caller.scopes, until
        )

    def find(self, request: Request) -> BrowserSession | None:
        """Return the session of this request, or None."""
        return self.sealer.open_browser_session(request.cookies.get(self.cookie, ""), self.clock())

    def has_expired(self, session: BrowserSession) -> bool:
        return self.clock() >= session.expires_at

    def remember(self, response: Response, request: Request, session: BrowserSession) -> None:
        """Set the cookie."""
        self._set(response, request, self.sealer.seal_browser_session(session), session.expires_at)

    def forget(self, response: Response, request: Request) -> None:
        """Delete the cookie."""
        self._set(response, request, "", 0)

    def _set(self, response: Response, request: Request, text: str, expires_at: int) -> None:
        is_public_https = (self.public_url or "").startswith("https:")
        response.set_cookie(
            self.cookie,
            text,
            max_age=max(0, (expires_at - self.clock()) // 1_000),
            path=request.scope.get("root_path", "") or "/",
            secure=is_public_https or request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    # --- forms -------------------------------------------------------------------------------

    def form_token(self, session: BrowserSession) -> str:
        return self.sealer.seal_form(session)

    def is_valid_form(self, request: Request, session: BrowserSession, token: str) -> bool:
        """Return whether a page of this session contained the form and sent it."""
        return self.is_same_origin(request.headers) and self.sealer.is_form_of(session, token)

    def is_same_origin(self, headers: Mapping[str, str]) -> bool:
        """Return whether a page of the console sent this, by `Sec-Fetch-Site` and `Origin`.

        Old browsers and other clients send neither.
        """
        site = headers.get("sec-fetch-site")
        if site is not None and site != "same-origin":
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        hosts = {headers.get("host", "").lower()}
        if self.public_url is not None:  # a proxy may change the host name
            hosts.add(urlsplit(self.public_url).netloc.lower())
        return origin.partition("://")[2].lower() in hosts
