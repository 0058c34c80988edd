"""Sealed tokens open only for the owner and purpose that they were sealed for."""

import base64
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import product

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.protocol.sealing import (
    MAX_CURSOR,
    MAX_STATE,
    MIN_SECRET,
    BrowserSession,
    Position,
    RequestState,
    Sealer,
    request_digest,
)
from taskmachine.statemachine import ConfigurationError
from tests.seed import SEED
from tests.strategies import ids, json_values, text

ROUNDS = 100_000

SEALER = Sealer(b"a server secret of 32 bytes here")
OTHER_SEALER = Sealer(b"a server secret of 32 bytes herf")
NOW = 1_785_196_800_000
DIGEST = request_digest("tools/call", "book", b'{"city":"Oslo"}')
POSITION = Position(NOW, "786512e2-9e0d-44bd-8f29-789f320fe840")
STATE = RequestState({"name": b'{"action":"accept"}', "age": b"7"}, NOW + 60_000, DIGEST)

NO_CURSOR = "params.cursor is not a cursor of this server"
NO_STATE = "params.requestState is not a state of this server"
EXPIRED = "params.requestState has expired"
OTHER_REQUEST = "params.requestState belongs to another request"

times = st.integers(0, 2**53 - 1)
positions = st.builds(Position, times, ids | text)
states = st.builds(
    RequestState,
    st.dictionaries(text, json_values.map(encode_json), max_size=4),
    times,
    st.binary(min_size=32, max_size=32),
)


def refusal(open_it: Callable[..., object], *arguments: object) -> str | None:
    """Why it was refused, None if it was opened; any other exception fails the test."""
    try:
        open_it(*arguments)
    except InvalidParams as error:
        return error.reason
    return None


def cursor_refusal(token: str, owner: str = "ann", sealer: Sealer = SEALER) -> str | None:
    return refusal(sealer.open_cursor, owner, token)


def state_refusal(
    token: str,
    owner: str = "ann",
    sealer: Sealer = SEALER,
    *,
    now: int = NOW,
    digest: bytes = DIGEST,
) -> str | None:
    return refusal(sealer.open_state, owner, token, now, digest)


def decoded(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@given(text, positions)
def test_a_cursor_opens_as_the_position_that_was_sealed(owner: str, position: Position) -> None:
    assert SEALER.open_cursor(owner, SEALER.seal_cursor(owner, position)) == position


@given(text, states, st.integers(min_value=1))
def test_a_sealed_request_state_opens_unchanged(owner: str, state: RequestState, left: int) -> None:
    token = SEALER.seal_state(owner, state)
    assert SEALER.open_state(owner, token, state.expires_at - left, state.digest) == state


@pytest.mark.parametrize("answer", [b'{ "a" : 1.0 }', b'{"a":1,"a":2}', b'"\\u00e9"', b"1e2"])
def test_answers_keep_their_bytes(answer: bytes) -> None:
    token = SEALER.seal_state("ann", attrs.evolve(STATE, answers={"key": answer}))
    assert SEALER.open_state("ann", token, NOW, DIGEST).answers == {"key": answer}


@given(text, positions, states)
def test_tokens_are_plain_words_in_any_url_header_or_json(
    owner: str, position: Position, state: RequestState
) -> None:
    for token in (SEALER.seal_cursor(owner, position), SEALER.seal_state(owner, state)):
        assert token.isascii()
        assert token.replace("-", "").replace("_", "").isalnum()


@given(st.binary(min_size=MIN_SECRET, max_size=100), text, positions, states)
def test_replicas_with_one_secret_make_the_same_tokens(
    secret: bytes, owner: str, position: Position, state: RequestState
) -> None:
    first, second = Sealer(secret), Sealer(bytes(bytearray(secret)))
    turned = attrs.evolve(state, answers=dict(reversed([*state.answers.items()])))
    assert first.seal_cursor(owner, position) == second.seal_cursor(owner, position)
    assert first.seal_state(owner, state) == second.seal_state(owner, turned)


def test_tokens_of_earlier_releases_still_open() -> None:
    """If one of these has to change, so has the number in its purpose."""
    cursor = (
        "2mNgUm9cvfRcznYWGItVmYLVhUTHSGQfatqAbL0SVufV7AimzexLoWRvjrH0waHFP3TFT10ECVxO3HUW"
        "x13pDyDfcmr18w"
    )
    state = (
        "o9eBD-Z8jfFrLs4YPMAVQ85h7f8scOn45Yv4nuijEyF2M0peaN_9BX8qZIMUYxiFXx2Sshp1JEiBOVEH"
        "43CCHY5cdyhp0iouP1GrTS7eOEd-YEGbrN78kxVQSWv1GwLSqhjoEMa6zV3c1aM3cPTlNKeW6Hm8NapI"
        "EDotzj-6MenY5xVmczvFsYYZdACMaIY"
    )
    assert SEALER.seal_cursor("ann", POSITION) == cursor
    assert SEALER.seal_state("ann", STATE) == state
    assert SEALER.open_cursor("ann", cursor) == POSITION
    assert SEALER.open_state("ann", state, NOW, DIGEST) == STATE


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def flip_a_bit_inside(token: str, chance: random.Random) -> str:
    data = bytearray(decoded(token))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return encoded(bytes(data))


def flip_a_bit_of_the_text(token: str, chance: random.Random) -> str:
    at = chance.randrange(len(token))
    return token[:at] + chr(ord(token[at]) ^ 1 << chance.randrange(8)) + token[at + 1 :]


def change_the_last_character(token: str, chance: random.Random) -> str:
    return token[:-1] + chance.choice(ALPHABET.replace(token[-1], ""))


def truncate(token: str, chance: random.Random) -> str:
    kept = chance.randrange(len(token))
    return token[:kept] if chance.random() < 0.5 else token[len(token) - kept :]


def extend(token: str, chance: random.Random) -> str:
    more = "".join(chance.choices(ALPHABET + "=+/ \n\0é", k=chance.randrange(1, 9)))
    at = chance.choice([0, len(token), chance.randrange(len(token))])
    return token[:at] + more + token[at:]


def swap_halves(token: str, chance: random.Random) -> str:
    data = decoded(token)
    at = chance.randrange(1, len(data))
    return encoded(data[at:] + data[:at])


def make_up(token: str, chance: random.Random) -> str:
    return encoded(chance.randbytes(chance.choice([16, 17, len(decoded(token))])))


TAMPERINGS = (
    flip_a_bit_inside,
    flip_a_bit_of_the_text,
    change_the_last_character,
    truncate,
    extend,
    swap_halves,
    make_up,
)


def tampered(genuine: list[str], chance: random.Random) -> str:
    """A token that was never sealed: one that was, changed; or two, spliced."""
    while True:
        token = chance.choice(genuine)
        way = chance.randrange(len(TAMPERINGS) + 1)
        if way < len(TAMPERINGS):
            changed = TAMPERINGS[way](token, chance)
        else:
            at = chance.randrange(len(token))
            changed = token[:at] + chance.choice(genuine)[at:]
        if changed not in genuine:
            return changed


def test_tampered_cursors_are_refused() -> None:
    chance = random.Random(SEED)
    genuine = [
        SEALER.seal_cursor("ann", Position(NOW + i, f"{chance.getrandbits(128):032x}"[i:]))
        for i in range(20)
    ]
    seen = Counter(cursor_refusal(tampered(genuine, chance)) for _ in range(ROUNDS))
    assert seen == {NO_CURSOR: ROUNDS}, f"seed {SEED}"
    assert {cursor_refusal(token) for token in genuine} == {None}


def test_tampered_states_are_refused() -> None:
    chance = random.Random(SEED)
    genuine = [
        SEALER.seal_state("ann", attrs.evolve(STATE, answers={"key": b"1" * size}))
        for size in range(1, 21)
    ]
    seen = Counter(state_refusal(tampered(genuine, chance)) for _ in range(ROUNDS))
    assert seen == {NO_STATE: ROUNDS}, f"seed {SEED}"
    assert {state_refusal(token) for token in genuine} == {None}


@pytest.mark.parametrize(
    "token",
    [
        "",
        "A",
        "=",
        "not a token",
        "é" * 40,
        "\ud800" * 40,
        "\0" * 40,
        encoded(bytes(15)),
        encoded(bytes(16)),  # nothing, under the tag that CVE-2026-45446 lets pass
        encoded(bytes(17)),
        base64.urlsafe_b64encode(b'[0,"t1"]').decode(),
        '[0,"t1"]',
    ],
)
def test_the_sealer_refuses_malformed_tokens(token: str) -> None:
    assert cursor_refusal(token) == NO_CURSOR
    assert state_refusal(token) == NO_STATE


@pytest.mark.parametrize(
    "dressed", ["{}=", "{}==", " {}", "{}\n", "{}%3D", "{}A", "{}AAAA", '"{}"']
)
def test_a_token_has_one_spelling(dressed: str) -> None:
    for task_id in ("t", "t1", "t12"):  # with and without room for padding
        cursor = SEALER.seal_cursor("ann", Position(NOW, task_id))
        assert cursor_refusal(cursor) is None
        assert cursor_refusal(dressed.format(cursor)) == NO_CURSOR


def test_unused_bits_of_the_last_character_count() -> None:
    lengths = set()
    for task_id in ("t", "t1", "t12"):
        cursor = SEALER.seal_cursor("ann", Position(NOW, task_id))
        lengths.add(len(cursor) % 4)
        opened = [last for last in ALPHABET if cursor_refusal(cursor[:-1] + last) is None]
        assert opened == [cursor[-1]]
    assert lengths == {0, 2, 3}


def test_the_sealer_refuses_the_standard_base64_alphabet() -> None:
    cursors = [SEALER.seal_cursor("ann", Position(NOW, f"t{i}")) for i in range(20)]
    standard = [cursor.replace("-", "+").replace("_", "/") for cursor in cursors]
    assert standard != cursors
    for cursor, respelled in zip(cursors, standard, strict=True):
        assert cursor_refusal(respelled) == (None if respelled == cursor else NO_CURSOR)


@given(text, text, positions, states)
def test_a_token_opens_only_for_its_owner(
    owner: str, other: str, position: Position, state: RequestState
) -> None:
    expected = None if owner == other else NO_CURSOR
    assert cursor_refusal(SEALER.seal_cursor(owner, position), other) == expected
    expected = None if owner == other else NO_STATE
    token = SEALER.seal_state(owner, state)
    assert state_refusal(token, other, now=-1, digest=state.digest) == expected


OWNERS = ["", " ", "a", "A", "an", "ann", "ann ", " ann", "ann\0", "owner ann", "é", "e\u0301"]


@pytest.mark.parametrize("owner", OWNERS)
def test_owners_that_look_alike_are_strangers(owner: str) -> None:
    cursor, state = SEALER.seal_cursor(owner, POSITION), SEALER.seal_state(owner, STATE)
    assert [other for other in OWNERS if cursor_refusal(cursor, other) is None] == [owner]
    assert [other for other in OWNERS if state_refusal(state, other) is None] == [owner]


@given(text, positions, states)
def test_another_key_opens_nothing(owner: str, position: Position, state: RequestState) -> None:
    cursor, token = SEALER.seal_cursor(owner, position), SEALER.seal_state(owner, state)
    assert cursor_refusal(cursor, owner, OTHER_SEALER) == NO_CURSOR
    assert state_refusal(token, owner, OTHER_SEALER, now=-1, digest=state.digest) == NO_STATE


@given(text, positions, states)
def test_a_cursor_does_not_open_as_a_state_nor_a_state_as_a_cursor(
    owner: str, position: Position, state: RequestState
) -> None:
    assert state_refusal(SEALER.seal_cursor(owner, position), owner) == NO_STATE
    assert cursor_refusal(SEALER.seal_state(owner, state), owner) == NO_CURSOR


@pytest.mark.parametrize(
    ("late_by", "reason"),
    [(-60_000, None), (-1, None), (0, EXPIRED), (1, EXPIRED), (10**9, EXPIRED)],
)
def test_a_request_state_is_valid_until_the_millisecond_before_it_expires(
    late_by: int, reason: str | None
) -> None:
    token = SEALER.seal_state("ann", STATE)
    assert state_refusal(token, now=STATE.expires_at + late_by) == reason


@pytest.mark.parametrize(
    "digest",
    [
        request_digest("tools/call", "book", b'{"city":"Rome"}'),
        request_digest("tools/call", "cook", b'{"city":"Oslo"}'),
        request_digest("prompts/get", "book", b'{"city":"Oslo"}'),
        DIGEST[:-1],
        DIGEST + b"\0",
        bytes(32),
        b"",
    ],
)
def test_a_state_of_another_request_is_refused(digest: bytes) -> None:
    token = SEALER.seal_state("ann", STATE)
    assert state_refusal(token, digest=digest) == OTHER_REQUEST
    assert state_refusal(token, digest=DIGEST) is None


def test_the_refusal_of_a_foreign_state_hides_its_expiry_and_request() -> None:
    token = SEALER.seal_state("ann", STATE)
    assert state_refusal(token, "bob", now=STATE.expires_at) == NO_STATE
    assert state_refusal(token, "bob", digest=b"") == NO_STATE


words = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=10, max_size=40)


@given(words, words, words, words)
def test_no_plaintext_shows_in_a_token(owner: str, task_id: str, key: str, answer: str) -> None:
    state = attrs.evolve(STATE, answers={key: encode_json(answer)})
    for token in (
        SEALER.seal_cursor(owner, Position(NOW, task_id)),
        SEALER.seal_state(owner, state),
    ):
        for word in (owner, task_id, key, answer, str(NOW), str(STATE.expires_at), DIGEST.hex()):
            assert word not in token
            assert word.encode() not in decoded(token)
        assert DIGEST not in decoded(token)


def test_a_refusal_quotes_nothing_and_has_no_cause() -> None:
    cursor = SEALER.seal_cursor("ann", POSITION)
    with pytest.raises(InvalidParams) as error:
        SEALER.open_cursor("bob", cursor)
    assert str(error.value) == error.value.reason == NO_CURSOR
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_a_sealer_does_not_print_its_key() -> None:
    assert "secret" not in repr(SEALER) + str(vars(SEALER))


def test_a_cursor_is_made_only_as_long_as_one_is_opened() -> None:
    overhead = len(decoded(SEALER.seal_cursor("ann", Position(NOW, ""))))
    longest = Position(NOW, "x" * (MAX_CURSOR // 4 * 3 - overhead))
    cursor = SEALER.seal_cursor("ann", longest)
    assert len(cursor) == MAX_CURSOR
    assert SEALER.open_cursor("ann", cursor) == longest
    with pytest.raises(ValueError, match="1026 characters; the limit is 1024"):
        SEALER.seal_cursor("ann", Position(NOW, longest.task_id + "x"))


def test_a_state_is_made_only_as_long_as_one_is_opened() -> None:
    def state_of(size: int) -> RequestState:
        return attrs.evolve(STATE, answers={"key": b"1" * size})

    overhead = len(decoded(SEALER.seal_state("ann", state_of(0))))
    longest = state_of(MAX_STATE // 4 * 3 - overhead)
    token = SEALER.seal_state("ann", longest)
    assert len(token) == MAX_STATE
    assert SEALER.open_state("ann", token, NOW, DIGEST) == longest
    with pytest.raises(InvalidParams, match=r"params\.inputResponses is too large"):
        SEALER.seal_state("ann", state_of(len(longest.answers["key"]) + 1))


@pytest.mark.parametrize(
    ("refused", "limit", "reason"),
    [(cursor_refusal, MAX_CURSOR, NO_CURSOR), (state_refusal, MAX_STATE, NO_STATE)],
)
def test_too_long_a_text_is_refused_before_any_work(
    refused: Callable[[str], str | None], limit: int, reason: str
) -> None:
    assert refused("A" * limit) == reason
    huge = "A" * 20_000_000
    tracemalloc.start()
    try:
        assert refused("A" * (limit + 1)) == reason
        tracemalloc.reset_peak()
        assert refused(huge) == reason
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, MIN_SECRET - 1])
def test_a_short_secret_is_a_configuration_error(size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"has {size} bytes; at least 32 are required"):
        Sealer(b"x" * size)


def test_every_byte_of_a_long_secret_counts() -> None:
    secrets = [b"x" * 32, b"x" * 33, b"x" * 200, b"x" * 199 + b"y", b"x" * 32 + b"\0"]
    assert len({Sealer(secret).seal_cursor("ann", POSITION) for secret in secrets}) == 5


PARTS = ["", "a", "b", "ab", "\0", "\0\0", "a\0", "\0a", '"', ",", "\0\0\0\0\0\0\0\1a"]


def test_different_requests_have_different_digests() -> None:
    triples = list(product(PARTS, PARTS, map(str.encode, PARTS)))
    assert len({request_digest(*triple) for triple in triples}) == len(triples) == 11**3


def test_digests_know_where_a_part_ends() -> None:
    splits = [("a", "bc", b""), ("ab", "c", b""), ("abc", "", b""), ("", "abc", b"")]
    splits += [("a", "b", b"c"), ("a", "", b"bc"), ("", "a", b"bc"), ("", "", b"abc")]
    assert len({request_digest(*split) for split in splits}) == len(splits)


def test_a_digest_is_the_same_on_every_replica() -> None:
    assert DIGEST.hex() == "238507e799a4d157c82f7e7f0c91708f14ff349ce5c9c37b530c05e1640f5184"


@given(text, text, text, ids | text)
def test_the_id_of_a_question_opens_as_its_task_and_key(
    owner: str, task_id: str, key: str, unique: str
) -> None:
    token = SEALER.seal_question(owner, task_id, key, unique)
    assert SEALER.open_question(owner, token) == (task_id, key)
    assert SEALER.open_question(owner + "x", token) is None
    assert OTHER_SEALER.open_question(owner, token) is None
    assert SEALER.open_stream(owner, token) is None


@given(text, st.integers(0, 2**53) | text, st.none() | text)
def test_a_sealed_stream_opens_to_its_request_id_and_task_id(
    owner: str, request_id: str | int, task_id: str | None
) -> None:
    token = SEALER.seal_stream(owner, request_id, task_id)
    assert SEALER.open_stream(owner, token) == (request_id, task_id)
    assert SEALER.open_stream(owner + "x", token) is None
    assert SEALER.open_question(owner, token) is None


@pytest.mark.parametrize("id", [7, "", "x", "=" * 5_000, SEALER.seal_cursor("ann", POSITION)])
def test_an_invalid_id_opens_as_neither_a_question_nor_a_stream(id: str | int) -> None:
    assert SEALER.open_question("ann", id) is None
    assert SEALER.open_stream("ann", str(id)) is None


LOGIN = BrowserSession("v-1", "ann", False, NOW + 60_000)
logins = st.builds(BrowserSession, text, text, st.booleans(), times)


@given(logins)
def test_a_login_opens_until_it_expires(login: BrowserSession) -> None:
    sealed = SEALER.seal_browser_session(login)
    assert SEALER.open_browser_session(sealed, login.expires_at - 1) == login
    assert SEALER.open_browser_session(sealed, login.expires_at) is None
    assert OTHER_SEALER.open_browser_session(sealed, 0) is None


def test_other_texts_open_no_login() -> None:
    for token in ("", "x", SEALER.seal_form(LOGIN), SEALER.seal_cursor("", POSITION), "A" * 5_000):
        assert SEALER.open_browser_session(token, NOW) is None


def test_a_form_belongs_to_one_login() -> None:
    token = SEALER.seal_form(LOGIN)
    assert SEALER.is_form_of(LOGIN, token)
    for other in (attrs.evolve(LOGIN, id="v-2"), attrs.evolve(LOGIN, owner="bob")):
        assert not SEALER.is_form_of(other, token)
    for forged in ("", "x", "\u00e4", token[:-1], SEALER.seal_browser_session(LOGIN)):
        assert not SEALER.is_form_of(LOGIN, forged)
    assert not OTHER_SEALER.is_form_of(LOGIN, token)


def test_the_alias_of_an_owner_is_stable_and_known_to_the_server_only() -> None:
    assert SEALER.alias("alice") == SEALER.alias("alice")
    others = {SEALER.alias("bob"), OTHER_SEALER.alias("alice")}
    assert SEALER.alias("alice") not in others
    assert "alice" not in SEALER.alias("alice")
