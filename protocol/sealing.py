"""What a peer keeps for us and must not read, change or lend: cursors, `requestState`, visits.

All are sealed by AES-SIV (RFC 5297) and spelled in base64url without padding.  Owner and purpose
are associated data: a token opens for whom, and as what, it was sealed.  The mode needs no nonce,
so nothing here draws chance or counts, and every replica with the same secret makes and opens the
same tokens.  All that equal tokens betray is that the same thing was sealed twice for one owner.
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

from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import Id
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "MAX_CURSOR",
    "MAX_STATE",
    "MIN_SECRET",
    "Position",
    "RequestState",
    "Sealer",
    "Visit",
    "request_digest",
]

MIN_SECRET: Final = 32
"""Bytes of a server secret."""

MAX_CURSOR: Final = 1024
"""Characters of a cursor; one for an id of 36 characters has about 100."""

MAX_ID: Final = 4096
"""Characters of the id of a question or stream; most have about 150."""

MAX_STATE: Final = 1024 * 1024
"""Characters of a requestState: it travels inside a message together with new answers."""

_TAG_BYTES: Final = 16
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")


@attrs.frozen
class Position:
    """The task after which a page goes on, in the order of (created_at, id)."""

    created_at: int
    task_id: str


@attrs.frozen
class RequestState:
    """What a multi round trip knows so far.

    `answers` maps question keys to encoded JSON, kept byte for byte; `expires_at` is in
    milliseconds since the epoch; `digest` is the `request_digest` of the request that it is for.
    """

    answers: Mapping[str, bytes]
    expires_at: int
    digest: bytes


@attrs.frozen
class Visit:
    """Whom a browser was let in as: `id` tells two visits of one owner apart.

    `expires_at` is in milliseconds since the epoch.
    """

    id: str
    owner: str
    is_admin: bool
    expires_at: int


@attrs.frozen
class _Purpose:
    """Change the number in `label` along with the payload: what is authentic is not checked."""

    label: bytes
    limit: int
    refusal: str


_CURSOR: Final = _Purpose(b"cursor 1", MAX_CURSOR, "params.cursor is not a cursor of this server")
_STATE: Final = _Purpose(
    b"requestState 1", MAX_STATE, "params.requestState is not a state of this server"
)
_QUESTION: Final = _Purpose(b"question 1", MAX_ID, "the id is not of a question of this server")
_STREAM: Final = _Purpose(b"stream 1", MAX_ID, "the event is not of a stream of this server")
_VISIT: Final = _Purpose(b"visit 1", MAX_ID, "the cookie is not of this server")
_FORM: Final = _Purpose(b"form 1", MAX_ID, "the form is not of this visit")


class Sealer:
    """Seals and opens with one key.

    The 64-byte key is HKDF-SHA512 of the server secret, without salt and with a label of its own,
    so the same secret may serve other purposes.  The secret is random bytes, not a password:
    nothing slows guessing down.  ConfigurationError if it has less than `MIN_SECRET` bytes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET:
            raise ConfigurationError(
                f"the server secret has {len(secret)} bytes, at least {MIN_SECRET} are needed"
            )
        derivation = HKDF(SHA512(), length=64, salt=None, info=b"taskmachine sealing")
        self._siv = AESSIV(derivation.derive(secret))

    def alias(self, owner: str) -> str:
        """A name for an owner that says nothing of it, the same wherever the secret is: for logs.

        Without the secret nobody can tell whose it is, nor try whether it is somebody's.
        """
        tag = self._siv.encrypt(b"", [b"alias 1", owner.encode()])
        return base64.urlsafe_b64encode(tag).decode().rstrip("=")

    def seal_cursor(self, owner: str, position: Position) -> str:
        """A cursor that only this owner can use; ValueError if the id is too long for one."""
        text = self._seal(_CURSOR, owner, [position.created_at, position.task_id])
        if len(text) > MAX_CURSOR:
            raise ValueError(f"a cursor of {len(text)} characters, at most {MAX_CURSOR} are opened")
        return text

    def open_cursor(self, owner: str, text: str) -> Position:
        """The position in a cursor of this owner; InvalidParams for whatever else it is."""
        created_at, task_id = self._open(_CURSOR, owner, text)  # 2025-11-25:list-bad-cursor-32602
        return Position(created_at, task_id)

    def seal_state(self, owner: str, state: RequestState) -> str:
        """A requestState for this owner; InvalidParams if the client's answers outgrow it."""
        # Sorted: equal states are one token, in whatever order the answers came.
        answers = {key: state.answers[key].decode() for key in sorted(state.answers)}
        text = self._seal(_STATE, owner, [state.expires_at, state.digest.hex(), answers])
        if len(text) > MAX_STATE:
            raise InvalidParams("params.inputResponses is too large to be kept in a requestState")
        return text

    def open_state(self, owner: str, text: str, now: int, digest: bytes) -> RequestState:
        """The state that was sealed for this owner and request, and still holds at `now`.

        InvalidParams otherwise.  Only whoever presents an authentic state of their own is told
        what is wrong with it.  It can be presented again until it expires: what must happen only
        once has to be ensured elsewhere.
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
        """The id of a request that brings a question: whoever gets the answer knows what for."""
        return self._seal(_QUESTION, owner, [task_id, key, unique])

    def open_question(self, owner: str, id: Id) -> tuple[str, str] | None:
        """The task and the key of a question that was sent to this owner under that id."""
        try:
            task_id, key, _ = self._open(_QUESTION, owner, str(id))
        except InvalidParams:
            return None
        return task_id, key

    def seal_stream(self, owner: str, request_id: Id, task_id: str | None) -> str:
        """A name for the stream that answers a request, about a task or not."""
        return self._seal(_STREAM, owner, [request_id, task_id])

    def open_stream(self, owner: str, text: str) -> tuple[Id, str | None] | None:
        """What a stream of this owner was to answer; None if it is none."""
        try:
            request_id, task_id = self._open(_STREAM, owner, text)
        except InvalidParams:
            return None
        return request_id, task_id

    def seal_visit(self, visit: Visit) -> str:
        """What a browser shows to be let in again."""
        facts = [visit.id, visit.owner, visit.is_admin, visit.expires_at]
        return self._seal(_VISIT, "", facts)  # who it is for is inside, and not known before

    def open_visit(self, text: str, now: int) -> Visit | None:
        """The visit that a browser shows; None if it is none, or over."""
        try:
            visit = Visit(*self._open(_VISIT, "", text))
        except InvalidParams:
            return None
        return visit if now < visit.expires_at else None

    def seal_form(self, visit: Visit) -> str:
        """What forms of this visit carry, and no other page knows."""
        return self._seal(_FORM, visit.owner, [visit.id])

    def is_form_of(self, visit: Visit, text: str) -> bool:
        """Whether a form was made for this visit."""
        return compare_digest(self.seal_form(visit).encode(), text.encode())

    def _seal(self, purpose: _Purpose, owner: str, payload: list[Any]) -> str:
        return _to_text(self._siv.encrypt(encode_json(payload), _bound_to(purpose, owner)))

    def _open(self, purpose: _Purpose, owner: str, text: str) -> Any:
        bound_to = _bound_to(purpose, owner)
        try:
            payload = self._siv.decrypt(_from_text(text, purpose.limit), bound_to)
        except (ValueError, InvalidTag):
            # One answer to all of it: nobody learns how close a guess has come.
            raise InvalidParams(purpose.refusal) from None
        return decode_json(payload)


def request_digest(method: str, name: str, arguments: bytes) -> bytes:
    """Tells the request that a requestState is for; `name` is of the tool or prompt, or the URI.

    Bytes are compared, not JSON values: encode the arguments of both requests in the same way.
    """
    framed = sha256()
    for part in (method.encode(), name.encode(), arguments):
        # The length in front, or "a" + "bc" would be "ab" + "c".
        framed.update(len(part).to_bytes(8))
        framed.update(part)
    return framed.digest()


def _bound_to(purpose: _Purpose, owner: str) -> list[bytes]:
    # Never an empty entry, even if an owner is: an older OpenSSL skips those (CVE-2023-2975).
    return [purpose.label, b"owner " + owner.encode()]


def _to_text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _from_text(text: str, limit: int) -> bytes:
    """ValueError unless `text` is the one spelling of something that can have been sealed."""
    if len(text) > limit:
        raise ValueError("too long")
    if not _BASE64URL.fullmatch(text):  # a decoder skips other characters, or warns
        raise ValueError("not base64url")
    sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _to_text(sealed) != text:
        raise ValueError("the last character has bits that nothing vouches for")
    # No payload is empty, and an older OpenSSL may let an empty one pass (CVE-2026-45446).
    if len(sealed) <= _TAG_BYTES:
        raise ValueError("too short")
    return sealed
