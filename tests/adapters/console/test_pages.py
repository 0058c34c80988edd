"""The contents of pages, and protection against scripts in tasks."""

import base64
import html
import json
import re
from typing import Any

import pytest

from taskmachine.adapters.console.formatting import (
    MOST_CHARS,
    MOST_MOMENTS,
    outcome_blocks,
    timeline,
)
from taskmachine.adapters.rendering.diagram import render_path
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.retries import Again
from taskmachine.protocol.dialects.dialect import kind_of
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import Call, Cause, Entry, Event, Outcome, Question, State, Task
from tests.adapters.connections import Connection
from tests.adapters.console.console_server import (
    ADMIN,
    ALICE,
    SECRET,
    ConsoleServer,
    console_server,
)
from tests.adapters.memory_service import FORM, run

SCRIPT = "</pre></textarea>'\"><script>alert(1)</script><img src=x onerror=alert(2)>"


def harmless(page: str) -> bool:
    """Return whether a page contains no markup of a task."""
    inert = re.sub(
        r'<script type="module" src="/console/static/console\.js\?v=\w+"></script>', "", page
    )
    return (
        "<script" not in inert
        and "<img" not in inert
        and "onerror=alert" not in re.sub(r"&lt;img src=x onerror=alert\(2\)&gt;", "", inert)
    )


async def poisoned(there: ConsoleServer) -> list[Task]:
    """Create tasks with a script in every text that callers or tools can set."""
    body = encode_json({"text": SCRIPT, SCRIPT: SCRIPT})
    schema = {
        "type": "object",
        "properties": {
            SCRIPT: {"type": "string", "title": SCRIPT, "description": SCRIPT, "default": SCRIPT},
            "e": {"type": "string", "enum": [SCRIPT], "enumNames": [SCRIPT]},
            "o": {"type": "string", "oneOf": [{"const": SCRIPT, "title": SCRIPT}]},
            "m": {"type": "array", "items": {"type": "string", "enum": [SCRIPT]}},
            "n": {"type": "integer", "minimum": 1},
            "j": {"type": "object", "default": {SCRIPT: SCRIPT}},
            "f": {"type": "string", "format": SCRIPT},
        },
        "required": [SCRIPT],
    }
    elicit = {"mode": "form", "message": SCRIPT, "requestedSchema": schema}
    bad_url = {"mode": "url", "message": SCRIPT, "url": "javascript:alert(1)"}
    good_url = {"mode": "url", "message": "", "url": f"https://a.example/{SCRIPT}"}
    spoken = {"role": SCRIPT, "content": {"type": "text", "text": SCRIPT}}
    sample = {"systemPrompt": SCRIPT, "messages": [spoken]}
    asked = [
        Question(SCRIPT, "elicitation/create", encode_json(elicit)),
        Question("url", "elicitation/create", encode_json(bad_url)),
        Question("url2", "elicitation/create", encode_json(good_url)),
        Question("model", "sampling/createMessage", encode_json(sample)),
        Question("roots", f"roots/{SCRIPT}", b"{}"),
    ]
    answers = frozenset(map(kind_of, asked))
    call = Call("tools/call", SCRIPT, body, answers=answers)
    tasks = [
        await there.service.create(ALICE, call, metadata=body, task_id=task_id)
        for task_id in ("plain", SCRIPT.replace("/", ""), "asks", "answered", "ends", "fails")
    ]
    _, _, asks, answered, ends, fails = tasks
    working = await there.claim(tasks[0])
    await working.report(message=SCRIPT)
    for task in (asks, answered):
        await (await there.claim(task)).ask(asked)
    await there.service.cancel(ALICE, answered.id, SCRIPT)
    result = {
        "content": [
            {"type": "text", "text": SCRIPT},
            {"type": "image", "data": SCRIPT, "mimeType": "image/png"},
            {"type": "image", "data": "AAAA", "mimeType": f'image/png"{SCRIPT}'},
            {"type": SCRIPT},
        ],
        "structuredContent": {SCRIPT: SCRIPT},
        SCRIPT: SCRIPT,
    }
    await (await there.claim(ends)).settle(Outcome.of_result(encode_json(result)))
    await (await there.claim(fails)).settle(Outcome.of_error(-1, SCRIPT, body))
    return tasks


def test_a_script_in_every_text_is_text() -> None:
    async def main() -> None:
        async with console_server() as there:
            tasks = await poisoned(there)
            for owner in (ALICE, ADMIN):
                person = await there.visitor(owner)
                listed = (await person.get(f"/?tool={SCRIPT}&owner={SCRIPT}&state={SCRIPT}")).text
                assert harmless(listed)
                assert harmless((await person.get("/")).text)
                for task in tasks:
                    path = f"/tasks/{task.id.replace('<', '%3C').replace('#', '%23')}"
                    page = await person.get(path)
                    assert page.status_code == 200
                    assert harmless(page.text), path
                    assert "javascript:" not in re.sub(
                        r"<(code|pre).*?</\1>", "", page.text, flags=re.S
                    )
                    if not task.is_terminal:
                        async with person.watching(f"{path}/events") as stream:
                            pieces = json.loads((await stream.next()).data)["pieces"]
                            assert harmless("".join(pieces.values()))
                async with person.watching("/events") as stream:
                    assert harmless((await stream.next()).data)

    run(main())


def test_invalid_input_is_shown_again_as_text() -> None:
    async def main() -> None:
        async with console_server() as there:
            await poisoned(there)
            alice = await there.visitor(ALICE)
            response = await alice.send(
                "/tasks/asks/answer", key=SCRIPT, action="accept",
                **{f"field.{SCRIPT}": SCRIPT, "field.e": SCRIPT * 2, "field.j": SCRIPT},
            )  # fmt: skip
            assert response.status_code == 422
            assert "Choose one of the options" in response.text
            assert harmless(response.text)

    run(main())


def test_every_answer_is_protected() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            alice = await there.visitor(ALICE)
            answers = [
                await alice.get(path)
                for path in ("/", "/login", f"/tasks/{task.id}", "/tasks/x", "/x", "/static/x")
            ]
            answers += [
                await alice.post("/logout"),
                await alice.post("/"),
                await alice.get("/static/console.css"),
            ]
            async with alice.watching("/events") as stream:
                answers.append(stream.response)
            for answer in answers:
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "script-src 'self';" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["referrer-policy"] == "same-origin"
            assert [answer.status_code for answer in answers] == [
                200, 303, 200, 404, 404, 404, 403, 405, 200, 200,
            ]  # fmt: skip
            assert {answer.headers["cache-control"] for answer in answers[:8]} == {"no-store"}

    run(main())


def test_pages_have_no_style_or_script_of_their_own() -> None:
    """The policy would refuse them; and the URLs of files change with their contents."""

    async def main() -> None:
        async with console_server() as there:
            task = await there.asking(FORM)
            alice = await there.visitor(ALICE)
            for path in ("/", f"/tasks/{task.id}"):
                page = (await alice.get(path)).text
                assert not re.search(
                    r"<style|\sstyle=|\son\w+=|<script(?! type=.module. src=)", page
                )
                for address in re.findall(r'(?:src|href)="/console(/static/[^"]+)"', page):
                    file = await alice.get(html.unescape(address))
                    assert file.status_code == 200
                    assert "immutable" in file.headers["cache-control"]
                assert not re.search(r'(?:src|href)="(?!/console/|#)', page), "only local URLs"

    run(main())


def test_the_page_shows_the_responses_of_both_revisions() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.ended(outcome=Outcome.of_result(b'{"content":[]}', is_error=True))
            page = (await (await there.visitor(ALICE)).get(f"/tasks/{task.id}")).text
            shown = {
                label: json.loads(html.unescape(text))
                for label, text in re.findall(
                    r'aria-label="(tasks/\w+ in [\d-]+)">(.*?)</pre>', page, re.S
                )
            }
            for revision in ("2025-11-25", "2026-07-28"):
                line = Connection(there.runtime, revision, ALICE)
                await line.introduce()
                for method in ("tasks/get", "tasks/result"):
                    if f"{method} in {revision}" not in shown:
                        assert (method, revision) == ("tasks/result", "2026-07-28")
                        continue
                    answer = await line.call(method, {"taskId": task.id})
                    ours = shown[f"{method} in {revision}"]
                    answer.get("result", {}).get("_meta", {}).pop(
                        "io.modelcontextprotocol/serverInfo", None
                    )
                    ours.get("result", {}).get("_meta", {}).pop(
                        "io.modelcontextprotocol/serverInfo", None
                    )
                    assert {**ours, "id": 0} == {**answer, "id": 0}
                await line.conversation.close()
            assert 'class="state wire failed">failed' in page
            assert 'class="state wire completed">completed' in page
            for shown_to_people in (page, (await (await there.visitor(ALICE)).get("/")).text):
                assert 'class="state tool_error">tool error' in shown_to_people

    run(main())


PIXEL = base64.b64encode(b"\x89PNG").decode()


def picture_of(kind: str) -> Outcome:
    block = {"type": "image", "data": PIXEL, "mimeType": kind}
    return Outcome.of_result(encode_json({"content": [block]}))


@pytest.mark.parametrize(
    ("outcome", "blocks"),
    [
        (Outcome.of_result(b'{"content":[]}'), []),
        (Outcome.of_result(b'{"content":[{"type":"text","text":"Hello"}]}'), [("text", "Hello")]),
        (
            Outcome.of_result(
                b'{"content":[{"type":"text","text":"a"}],"structuredContent":{"result":"a"}}'
            ),
            [("text", "a")],
        ),
        (
            Outcome.of_result(b'{"content":[],"structuredContent":{"sum":3}}'),
            [("json", '{\n  "sum": 3\n}')],
        ),
        (Outcome.of_result(b'{"content":[],"isError":true}'), []),
        (picture_of("image/png"), [("image", f"data:image/png;base64,{PIXEL}")]),
        (picture_of("image/svg+xml"), None),
        (Outcome.of_result(b'{"action":"accept"}'), [("json", '{\n  "action": "accept"\n}')]),
        (Outcome.of_result(b"no json"), [("json", "no json")]),
        (Outcome.of_error(-32000, "no"), [("text", "no")]),
        (Outcome.of_error(-32000, "no", b'{"a":1}'), [("text", "no"), ("json", '{\n  "a": 1\n}')]),
        (Outcome(Cause.EXPIRED), []),
    ],
)  # fmt: skip
def test_results_are_readable(outcome: Outcome, blocks: list[tuple[str, str]] | None) -> None:
    shown = [(block.kind, block.text) for block in outcome_blocks(outcome)]
    if blocks is None:
        [(kind, _)] = shown
        assert kind == "json", "no picture that can run"
    else:
        assert shown == blocks


def test_large_values_are_cut() -> None:
    [block] = outcome_blocks(
        Outcome.of_result(encode_json({"content": [{"type": "text", "text": "x" * 100_000}]}))
    )
    assert len(block.text) < MOST_CHARS + 100
    assert block.text.endswith("… and 80,000 more characters")
    many = outcome_blocks(
        Outcome.of_result(encode_json({"content": [{"type": "text", "text": "x"}] * 80}))
    )
    assert len(many) == 51
    assert many[-1].text == "… and 30 more blocks"


def entry(seq: int, event: Event, note: str | None = None) -> Entry:
    return Entry("t", seq, seq, event, State.WORKING, State.WORKING, note)


def test_a_timeline_is_short_and_the_latest_comes_first() -> None:
    entries = [
        entry(1, Event.START),
        *(entry(n, Event.REPORT, f"n{n}") for n in range(2, 9)),
        entry(9, Event.REPORT),
        entry(10, Event.ASK),
    ]
    assert [(moment.event, moment.count, moment.note) for moment in timeline(entries)] == [
        ("ask", 1, None),
        ("report", 8, "n8"),
        ("start", 1, None),
    ]
    long = [entry(n, (Event.ASK, Event.ANSWER)[n % 2]) for n in range(1, 1_000)]
    assert len(timeline(long)) == MOST_MOMENTS
    assert timeline(long)[0].at == 999


def test_the_path_is_marked_in_the_diagram_of_the_table() -> None:
    picture = render_path({("new", "submitted"), ("submitted", "working")}, "working")
    classes = {
        name: kind
        for kind, name in re.findall(
            r'<g class="([a-z ]+)">(?:<rect[^>]*/>)+<text[^>]*>(\w+)</text></g>', picture
        )
    }
    assert classes == {
        "submitted": "taken", "working": "taken now", "input_required": "untaken",
        "completed": "untaken", "failed": "untaken", "cancelled": "untaken",
    }  # fmt: skip
    assert picture.count('<g class="taken"><path') == 2


def test_a_failing_store_shows_an_error_page() -> None:
    class Away(MemoryStore):
        is_away = False

        async def page(self, *arguments: object) -> list[Task]:
            if self.is_away:
                raise StoreError("the disk is full")
            return []

    async def main() -> None:
        store = Away(SECRET)
        async with console_server(store) as there:
            alice = await there.visitor(ALICE)
            store.is_away = True
            assert (await alice.get("/")).status_code == 503
            async with alice.watching("/events") as stream:
                assert await stream.end() == b"", "it ended, and the page comes again"

    run(main())


def test_console_rejects_the_websocket_scope() -> None:
    async def main() -> None:
        async with console_server() as there:
            with pytest.raises(RuntimeError, match="does not support the ASGI scope websocket"):
                await there.console({"type": "websocket"}, None, None)  # type: ignore[arg-type]

    run(main())


# --- steps, sleeps and retries ---------------------------------------------------------------


def record(kind: str, key: str, result: Any) -> bytes:
    return encode_json({"kind": kind, "key": key, "request": "", "result": result})


def words_of(page: str) -> str:
    """Return the text of a page on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_a_page_shows_steps_and_until_when_a_task_sleeps() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            held = await there.claim(task)
            await held.report(message="reading")
            await held.record(record("step", "fetch", {"pages": 3, "text": SCRIPT * 10}))
            await held.record(record("step", "k" * 256, "x" * 250_000))
            await held.report(message="reading")
            await held.record(record("sleep", "nap", there.clock.now + 60_000))
            await held.park(there.clock.now + 60_000)
            alice = await there.visitor(ALICE)
            page = (await alice.get(f"/tasks/{task.id}")).text
            assert harmless(page)
            shown = words_of(page)
            assert "Waiting sleeps until 2023-11-14 22:14:20 UTC" in shown
            assert "Recorded steps 3" in shown
            assert "Failed attempts" not in shown
            for line in (
                r"step fetch working .{,40} \d+ bytes: {\"pages\":3,",
                rf"step {'k' * 256} working .{{,40}} 250002 bytes: \"{'x' * 199}…",
                r"sleep nap working .{,40} until 2023-11-14 22:14:20 UTC",
            ):
                assert re.search(line, shown), line
            assert "x" * 200 not in shown
            assert "2 times" not in shown, "reports are not combined across a step"
            assert "sleeps until 22:14:20" in words_of((await alice.get("/")).text)

    run(main())


def test_only_an_admin_sees_the_error_of_a_failed_attempt() -> None:
    """The owner sees how many have failed, and the reason that the tool gave."""

    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            again = Again(60, "ConnectionError('password=hunter2')", "The shop is closed")
            await (await there.claim(task)).try_again(again, 6)
            for owner, is_shown in ((ALICE, False), (ADMIN, True)):
                person = await there.visitor(owner)
                listed = words_of((await person.get("/")).text)
                assert "attempt 2 of 6 from 22:14:20" in listed
                page = (await person.get(f"/tasks/{task.id}")).text
                shown = words_of(page)
                assert "Waiting attempt 2 of 6 from 2023-11-14 22:14:20 UTC" in shown
                assert "Failed attempts 1" in shown
                assert "Attempt 1 of 6 failed: The shop is closed; the next one begins at" in shown
                async with person.watching(f"/tasks/{task.id}/events") as stream:
                    shown += (await stream.until("pieces")).data
                assert ("hunter2" in shown) is is_shown
                assert "hunter2" not in listed

    run(main())
