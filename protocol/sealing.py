"""Sealed tokens that a peer cannot read, change or share: cursors, `requestState`, logins.

The callers of stored tasks are sealed in the same way.

All are encrypted by AES-SIV (RFC 5297) and encoded in base64url without padding.  Owner and purpose
are associated data: a token opens only for the owner and purpose that it was sealed for.  AES-SIV
needs no nonce, so sealing is deterministic, and every replica with the same secret makes and opens
the same tokens.  Equal tokens reveal only that the same value was sealed twice for one owner.
"""

import base64
import re
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from taskmachine.protocol.caller import Caller
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import Id
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "MAX_CURSOR",
    "MAX_STATE",
    "MIN_SECRET",
    "BrowserSession",
    "Position",
    "RequestState",
    "Sealer",
    "request_digest",
]

MIN_SECRET: Final = 32
"""Minimum length of a server secret, in bytes."""

MAX_CURSOR: Final = 1024
"""Maximum length of a cursor, in characters; one for an id of 36 characters has about 100."""

MAX_ID: Final = 4096
"""Maximum length of the id of a question or stream, in characters; most have about 150."""

MAX_STATE: Final = 1024 * 1024
"""Maximum length of a requestState, in characters; a message contains it and new answers."""

_TAG_BYTES: Final = 16
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")


@attrs.frozen
class Position:
    """The task after which the next page begins, in the order of (created_at, id)."""

    created_at: int
    task_id: str


@attrs.frozen
class RequestState:
    """The state of a call that was paused for questions.

    `answers` maps question keys to encoded JSON, kept byte for byte; `expires_at` is in
    milliseconds since the epoch; `digest` is the `request_digest` of the call.
    """

    answers: Mapping[str, bytes]
    expires_at: int
    digest: bytes


@attrs.frozen
class BrowserSession:
    """The login of a browser: `id` distinguishes two logins of one owner.

    `expires_at` is in milliseconds since the epoch.
    """

    id: str
    owner: str
    is_admin: bool
    expires_at: int


@attrs.frozen
class _Purpose:
    """Change the number in `label` along with the payload, as opened payloads are not validated."""

    label: bytes
    limit: int
    refusal: str


_CURSOR: Final = _Purpose(b"cursor 1", MAX_CURSOR, "params.cursor is not a cursor of this server")
_STATE: Final = _Purpose(
    b"requestState 1", MAX_STATE, "params.requestState is not a state of this server"
)
_QUESTION: Final = _Purpose(b"question 1", MAX_ID, "the id is not of a question of this server")
_STREAM: Final = _Purpose(b"stream 1", MAX_ID, "the event is not of a stream of this server")
_LOGIN: Final = _Purpose(b"visit 1", MAX_ID, "the cookie is not of this server")
_FORM: Final = _Purpose(b"form 1", MAX_ID, "the form is not of this login")

_CALLER: Final = b"caller 1"


class Sealer:
    """Seal and open tokens with one key.

    The 64-byte key is HKDF-SHA512 of the server secret, without salt and with a separate label, so
    the same secret may serve other purposes.  The secret must be random bytes, not a password: key
    derivation is fast.  ConfigurationError if it has fewer than `MIN_SECRET` bytes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET:
            raise ConfigurationError(
                f"the server secret has {len(secret)} bytes; at least {MIN_SECRET} are required"
            )
        derivation = HKDF(SHA512(), length=64, salt=None, info=b"taskmachine sealing")
        self._siv = AESSIV(derivation.derive(secret))

    def alias(self, owner: str) -> str:
        """Return a pseudonym of an owner for logs, the same in every process with the secret.

        Without the secret it cannot be traced to its owner, not even by guessing owners.
        """
        tag = self._siv.encrypt(b"", [b"alias 1", owner.encode()])
        return base64.urlsafe_b64encode(tag).decode().rstrip("=")

    def seal_cursor(self, owner: str, position: Position) -> str:
        """Return a cursor that only this owner can use; ValueError if the id is too long."""
        text = self._seal(_CURSOR, owner, [position.created_at, position.task_id])
        if len(text) > MAX_CURSOR:
            raise ValueError(f"the cursor has {len(text)} characters; the limit is {MAX_CURSOR}")
        return text

    def open_cursor(self, owner: str, text: str) -> Position:
        """Return the position in a cursor of this owner; InvalidParams for any other text."""
        created_at, task_id = self._open(_CURSOR, owner, text)  # 2025-11-25:list-bad-cursor-32602
        return Position(created_at, task_id)

    def seal_state(self, owner: str, state: RequestState) -> str:
        """Return a requestState for this owner; InvalidParams if the answers are too large."""
        # Sorted: equal states make equal tokens, in any order of their answers.
        answers = {key: state.answers[key].decode() for key in sorted(state.answers)}
        text = self._seal(_STATE, owner, [state.expires_at, state.digest.hex(), answers])
        if len(text) > MAX_STATE:
            raise InvalidParams("params.inputResponses is too large to be kept in a requestState")
        return text

    def open_state(self, owner: str, text: str, now: int, digest: bytes) -> RequestState:
        """Return the state that was sealed for this owner and request, unless it has expired.

        InvalidParams otherwise; the reason is detailed only for an authentic state of this owner.
        A state can be presented repeatedly until it expires, so callers must prevent replay.
        """
        # 2026-07-28:request-state-protected, 2026-07-28:request-state-bound-to-principal
        expires_at, sealed_digest, answers = self._open(_STATE, owner, text)
        if now >= expires_at:  # 2026-07-28:request-state-expires
            raise InvalidParams("params.requestState has expired")
        state = RequestState(
            {key: answer.encode() for key, answer in answers.items()},
            expires_at,
            bytes.fromhex(sealed_digest),
        )
        if not compare_digest(state.digest, digest):  # 2026-07-28:request-state-bound-to-request
            raise InvalidParams("params.requestState belongs to another request")
        return state

    def seal_question(self, owner: str, task_id: str, key: str, unique: Id) -> str:
        """Return a request id for a question, from which a response is matched to it."""
        return self._seal(_QUESTION, owner, [task_id, key, unique])

    def open_question(self, owner: str, id: Id) -> tuple[str, str] | None:
        """Return task id and key of a question that was sent to this owner under that id."""
        try:
            task_id, key, _ = self._open(_QUESTION, owner, str(id))
        except InvalidParams:
            return None
        return task_id, key

    def seal_stream(self, owner: str, request_id: Id, task_id: str | None) -> str:
        """Return a name for the stream of a request, which may concern a task."""
        return self._seal(_STREAM, owner, [request_id, task_id])

    def open_stream(self, owner: str, text: str) -> tuple[Id, str | None] | None:
        """Return request id and task id of a stream of this owner; None for any other text."""
        try:
            request_id, task_id = self._open(_STREAM, owner, text)
        except InvalidParams:
            return None
        return request_id, task_id

    def seal_browser_session(self, login: BrowserSession) -> str:
        """Return the value of a login cookie."""
        fields = [login.id, login.owner, login.is_admin, login.expires_at]
        return self._seal(_LOGIN, "", fields)  # the owner is unknown until the cookie is opened

    def open_browser_session(self, text: str, now: int) -> BrowserSession | None:
        """Return the login of a cookie, or None if it is invalid or expired."""
        try:
            login = BrowserSession(*self._open(_LOGIN, "", text))
        except InvalidParams:
            return None
        return login if now < login.expires_at else None

    def seal_form(self, login: BrowserSession) -> str:
        """Return the token that forms of this login carry against cross-site requests."""
        return self._seal(_FORM, login.owner, [login.id])

    def is_form_of(self, login: BrowserSession, text: str) -> bool:
        """Return True if a form token belongs to this login."""
        return compare_digest(self.seal_form(login).encode(), text.encode())

    def seal_caller(self, task_id: str, caller: Caller) -> bytes:
        """Return the caller of a task, encrypted."""
        return self._siv.encrypt(caller.encode(), _of_task(caller.owner, task_id))

    def open_caller(self, task_id: str, owner: str, sealed: bytes) -> Caller:
        """Return the caller that was sealed for this task of this owner.

        ConfigurationError if it was sealed for another one, or with another secret.
        """
        try:
            encoded = self._siv.decrypt(sealed, _of_task(owner, task_id))
        except (ValueError, InvalidTag):
            raise ConfigurationError(
                "the claims of its caller cannot be decrypted: they belong to another task or store"
            ) from None
        return Caller.decode(owner, encoded)

    def _seal(self, purpose: _Purpose, owner: str, payload: list[Any]) -> str:
        return _to_text(self._siv.encrypt(encode_json(payload), _bound_to(purpose, owner)))

    def _open(self, purpose: _Purpose, owner: str, text: str) -> Any:
        bound_to = _bound_to(purpose, owner)
        try:
            payload = self._siv.decrypt(_from_text(text, purpose.limit), bound_to)
        except (ValueError, InvalidTag):
            # The same error for every cause, so a guess reveals nothing.
            raise InvalidParams(purpose.refusal) from None
        return decode_json(payload)


def request_digest(method: str, name: str, arguments: bytes) -> bytes:
    """Return a digest that identifies a call; `name` is that of the tool or prompt, or the URI.

    It covers bytes, not JSON values: encode the arguments of both requests in the same way.
    """
    framed = sha256()
    for part in (method.encode(), name.encode(), arguments):
        # Length prefix: otherwise "a" + "bc" would equal "ab" + "c".
        framed.update(len(part).to_bytes(8))
        framed.update(part)
    return framed.digest()


def _bound_to(purpose: _Purpose, owner: str) -> list[bytes]:
    # Never an empty entry, even for an empty owner: older OpenSSL skips those (CVE-2023-2975).
    return [purpose.label, b"owner " + owner.encode()]


def _of_task(owner: str, task_id: str) -> list[bytes]:
    return [_CALLER, b"owner " + owner.encode(), b"task " + task_id.encode()]


def _to_text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _from_text(text: str, limit: int) -> bytes:
    """Decode a token; ValueError unless `text` is its canonical encoding."""
    if len(text) > limit:
        raise ValueError("too long")
    if not _BASE64URL.fullmatch(text):  # the decoder ignores other characters
        raise ValueError("not base64url")
    sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _to_text(sealed) != text:
        raise ValueError("the last character has unused bits that are not zero")
    # No payload is empty, and older OpenSSL may accept an empty one (CVE-2026-45446).
    if len(sealed) <= _TAG_BYTES:
        raise ValueError("too short")
    return sealed
