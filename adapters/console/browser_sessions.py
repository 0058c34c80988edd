"""Who is looking: a sealed cookie on each request, and proof that a form is one of ours.

The cookie holds the owner, whether it is an admin, and when it is over: sealed, so every replica
can read it and no browser can.  Nothing is kept here.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import attrs
from starlette.requests import Request
from starlette.responses import Response

from taskmachine.adapters.transports.auth.authentication import Caller
from taskmachine.protocol.sealing import Login, Sealer

__all__ = ["LONGEST_MS", "Visits"]

LONGEST_MS: Final = 8 * 3_600_000
"""Of one visit: a working day.  It ends earlier if the token does."""


@attrs.frozen
class Visits:
    """`clock` is in milliseconds since the epoch, `public_url` as in the settings."""

    sealer: Sealer
    clock: Callable[[], int]
    public_url: str | None = None

    @property
    def cookie(self) -> str:
        """Its name, another one for each store: browsers do not tell the ports of a machine apart,
        and two servers would throw each other's visitors out.
        """
        return "taskmachine_" + self.sealer.seal_login(Login("", "", False, 0))[:8].lower()

    def begin(self, caller: Caller) -> Login:
        """A new visit of somebody who was let in."""
        until = self.clock() + LONGEST_MS
        if caller.expires_at is not None:
            until = min(until, int(caller.expires_at))
        return Login(secrets.token_urlsafe(16), caller.owner, caller.is_admin, until)

    def find(self, request: Request) -> Login | None:
        """The visit that this request belongs to."""
        return self.sealer.open_login(request.cookies.get(self.cookie, ""), self.clock())

    def is_over(self, visit: Login) -> bool:
        return self.clock() >= visit.expires_at

    def remember(self, response: Response, request: Request, visit: Login) -> None:
        """Give the browser its cookie."""
        self._set(response, request, self.sealer.seal_login(visit), visit.expires_at)

    def forget(self, response: Response, request: Request) -> None:
        """Take it away again."""
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

    def form_token(self, visit: Login) -> str:
        return self.sealer.seal_form(visit)

    def is_ours(self, request: Request, visit: Login, token: str) -> bool:
        """Whether a form was made by our page, for this visit, and sent from there."""
        return self.is_from_here(request.headers) and self.sealer.is_form_of(visit, token)

    def is_from_here(self, headers: Mapping[str, str]) -> bool:
        """Whether a page of ours sent this, as far as the browser tells.

        A browser that says nothing is an old one, or none at all.
        """
        site = headers.get("sec-fetch-site")
        if site is not None and site != "same-origin":
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        hosts = {headers.get("host", "").lower()}
        if self.public_url is not None:  # a proxy may call us by another name
            hosts.add(urlsplit(self.public_url).netloc.lower())
        return origin.partition("://")[2].lower() in hosts
