"""Static bearer tokens in a TOML file: `name = "token"`, one on each line.

A token with scopes: `name = { token = "token", scopes = ["deploy"] }`.  The scope `admin` allows
its caller to see all tasks in the console.
"""

import hmac
import os
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.transports.auth.bearer_tokens import (
    SCOPE,
    TOKEN,
    bearer_token,
    invalid_token,
)
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import ConfigurationError

__all__ = ["MIN_TOKEN", "StaticTokenAuthenticator", "read_tokens"]

MIN_TOKEN: Final = 32
"""Minimum length in characters: guesses are not rate-limited, so tokens must be long and random."""


class StaticTokenAuthenticator:
    """Identify callers by fixed tokens; the owner is the name of the token.

    ConfigurationError if there are no tokens, or one is too short, malformed or repeated.
    """

    def __init__(self, owners: Owners, tokens: Mapping[str, Any]) -> None:
        if not tokens:
            raise ConfigurationError("no tokens are configured")
        written = {name: _written(name, entry) for name, entry in tokens.items()}
        for name, (token, _) in written.items():
            _check(name, token)
        if len({token for token, _ in written.values()}) < len(tokens):
            raise ConfigurationError("two names have the same token")
        # Digests have equal lengths, and the tokens themselves are not kept in memory.
        self._digests = [
            (
                sha256(token.encode()).digest(),
                Caller(owners.of_token_name(name), name, scopes=scopes).checked(),
            )
            for name, (token, scopes) in written.items()
        ]

    async def authenticate(self, authorization: str | None) -> Caller:
        """Return the caller; `Unauthorized` if the token is unknown."""
        digest = sha256(bearer_token(authorization).encode()).digest()
        found = None
        for known, caller in self._digests:  # always all, so that the timing is constant
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None:
            raise invalid_token()
        return found


def read_tokens(path: Path) -> dict[str, Any]:
    """Return the tokens by name.

    ConfigurationError if other users can read the file, or it is not TOML.  No message quotes
    the file.
    """
    try:
        with path.open("rb") as file:
            # `fstat` of the open file: the path may lead elsewhere by now.
            if os.name == "posix" and (mode := os.fstat(file.fileno()).st_mode & 0o777) & 0o077:
                raise ConfigurationError(
                    f"{path} is readable by other users (mode {mode:03o}): run chmod 600 on it, "
                    "and replace the tokens if they may have been read"
                )
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:  # TOML or UTF-8
        raise ConfigurationError(f'{path} is not TOML with lines like name = "token"') from None


def _written(name: str, entry: object) -> tuple[Any, frozenset[str]]:
    """Return the token and its scopes."""
    match entry:
        case {"token": token, "scopes": list(scopes), **more} if not more and all(
            isinstance(scope, str) and SCOPE.fullmatch(scope) for scope in scopes
        ):
            return token, frozenset(scopes)
        case dict():
            raise ConfigurationError(
                f"the token of '{name}' must be a string, or "
                '{ token = "...", scopes = ["admin"] } with scopes without spaces and quotes'
            )
        case _:
            return entry, frozenset()


def _check(name: str, token: object) -> None:
    if not name.isprintable() or not 0 < len(name) <= 128:
        raise ConfigurationError("the name of a token must have 1 to 128 printable characters")
    if not isinstance(token, str):
        raise ConfigurationError(f"the token of '{name}' must be a string")
    if len(token) < MIN_TOKEN:
        raise ConfigurationError(
            f"the token of '{name}' has {len(token)} characters, at least {MIN_TOKEN} are needed"
        )
    if not TOKEN.fullmatch(token):
        raise ConfigurationError(
            f"the token of '{name}' has characters that a header cannot carry: use letters, "
            "digits and -._~+/"
        )
