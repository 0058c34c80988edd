"""Excerpts, settings and transcripts of pages without a test elsewhere."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final, Literal
from unittest.mock import AsyncMock

import attrs
from pydantic import BaseModel, Field

from taskmachine.adapters.conformance import profile_files
from taskmachine.adapters.conformance.command_line import read_arguments
from taskmachine.adapters.engines.procrastinate import opening as procrastinate
from taskmachine.adapters.tools import content
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Threads, Tools
from taskmachine.adapters.tools.sampling import sampling
from taskmachine.adapters.transports.rest.openapi import document
from taskmachine.adapters.transports.settings import load_settings
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.specs import load_requirements
from taskmachine.statemachine import Reply
from taskmachine.testing import open_server, run
from tests.adapters.tools.test_tools import Notes, result_of
from tests.oracle import REPOSITORY, REVISIONS
from tests.site.pages import blocks_of, page

_SPOKEN: Final = re.compile(r" *[\d.]* *(->|<-|!!|\.\.) \S+| *\(.*\)$|\s")


def test_the_profile_is_understood(tmp_path: Path) -> None:
    [shown] = blocks_of("docs/howto/check.md", "toml")
    (tmp_path / "profile.toml").write_text(shown.text)
    profile = profile_files.load(tmp_path / "profile.toml")
    assert {str(role) for role in profile.calls} == set(tomllib.loads(shown.text))


def test_the_steps_of_continuous_integration_are_understood() -> None:
    [shown] = blocks_of("docs/howto/check.md", "yaml")
    [check] = re.findall(r"^- run: (taskmachine check .*)$", shown.text, re.MULTILINE)
    assert read_arguments(shlex.split(check)[2:]).junit


def test_page_script_subscribes_to_the_served_path_and_event() -> None:
    [script] = blocks_of("docs/reference/http.md", "js")
    [path] = re.findall(r"EventSource\(`(.*?)`\)", script.text)
    served: dict[str, Any] = document(needs_token=False)["paths"]
    example = str(served[path.replace("${id}", "{taskId}")])
    [event] = re.findall(r'addEventListener\("(\w+)"', script.text)
    assert f"event: {event}\\n" in example


def test_findings_are_of_the_versions_that_are_pinned() -> None:
    [shown] = blocks_of("docs/explanation/findings.md", "sh")
    pins = tomllib.loads((REPOSITORY / "tests" / "peers" / "pins.toml").read_text())
    pinned = {
        (name, version)
        for environments in pins.values()
        for packages in environments.values()
        for name, version in packages.items()
    }
    named = set(re.findall(r"(@?[\w/-]+)(?:\[\w+\])?(?:==|@)([\d.]+)", shown.text))
    assert len(named) > 5
    assert named <= pinned
    for path in re.findall(r"tests/peers/\S+\.py", shown.text):
        assert (REPOSITORY / path).exists()


def test_findings_are_transcripts_of_known_requirements() -> None:
    for shown in blocks_of("docs/explanation/findings.md", ""):
        for line in shown.text.splitlines():
            assert _SPOKEN.match(line), line
    ids = {row["id"] for revision in REVISIONS for row in load_requirements(revision)}
    cited = set(
        re.findall(r"`(20\d\d-\d\d-\d\d:[a-z0-9-]+)`", page("docs/explanation/findings.md"))
    )
    assert len(cited) > 30
    assert cited <= ids


def test_the_proxy_suits_the_server(tmp_path: Path) -> None:
    [settings] = blocks_of("docs/howto/server.md", "toml")
    [proxy] = blocks_of("docs/howto/server.md", "nginx")
    (tmp_path / "server.toml").write_text(settings.text)
    loaded = load_settings(str(tmp_path / "server.toml"), {}, {})
    assert f"proxy_pass http://{loaded.http};" in proxy.text
    [timeout] = re.findall(r"proxy_read_timeout (\d+)s;", proxy.text)
    assert int(timeout) > 60 > loaded.transport.keep_alive_s
    if nginx := shutil.which("nginx"):
        whole = f"events {{}}\nhttp {{ access_log off; server {{\n{proxy.text}}} }}\n"
        (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid; error_log stderr;\n{whole}")
        command = [nginx, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_a_tool_that_asks_in_many_ways() -> None:
    shown, _ = blocks_of("docs/howto/tools.md", "py", "")
    names: dict[str, Any] = {"tools": Tools(), "Context": Context, "sampling": sampling}
    names |= {"BaseModel": BaseModel, "Field": Field, "date": date}
    exec(shown.text, names)
    contents: dict[str, Any] = {
        "delivery": {"to": "Ada", "day": "2026-12-24"},
        "size": {"value": "s"},
        "sure": {"value": True},
    }
    card = {"content": {"type": "text", "text": "With love"}, "model": "m"}
    replies = {"card": Reply(encode_json(card))} | {
        key: Reply(encode_json({"action": "accept", "content": content}))
        for key, content in contents.items()
    }
    result = result_of(names["order"], notes=Notes(replies))
    assert result["content"][0]["text"] == "Sent box s to Ada: With love"


def test_a_tool_that_asks_first() -> None:
    _, shown = blocks_of("docs/howto/tools.md", "py", "")
    tools = Tools()
    exec(shown.text, {"tools": tools, "form": form, "Context": Context})
    [first] = tools["greet"].offered.first
    assert first.key == "name"


def excerpt_of_tools(title: str, **names: Any) -> Tools:
    """Tools with that of an excerpt."""
    [shown] = blocks_of("docs/howto/tools.md", "py", title)
    tools = Tools()
    exec(shown.text, {"tools": tools, "Context": Context, **names})
    return tools


def called(tools: Tools, name: str, **arguments: Any) -> tuple[str, float]:
    """The text of a call, and the time that it took."""

    async def main() -> tuple[str, float]:
        async with open_server(tools) as server:
            text = (await server.call(name, **arguments)).text
            return text, asyncio.get_running_loop().time()

    return run(main(), timeout=7_200)


def test_a_tool_that_is_retried() -> None:
    busy = SimpleNamespace(status=429, retry_after=60)
    done = SimpleNamespace(status=200, text="ordered")
    shop = SimpleNamespace(post=AsyncMock(side_effect=[busy, OSError, done]))
    text, took = called(excerpt_of_tools("retries", shop=shop), "order", item="tea")
    assert text == "ordered in attempt 3"
    assert took > 60


def test_a_tool_that_records_steps() -> None:
    bank = SimpleNamespace(charge=AsyncMock(side_effect=[OSError, "paid"]))
    mail = SimpleNamespace(send=AsyncMock(side_effect=[OSError, "sent"]))
    prices = {"tea": 3}
    tools = excerpt_of_tools(
        "steps", bank=bank, mail=mail, fetch_price=prices.pop, fetch_stock=lambda item: 1
    )
    assert called(tools, "buy", item="tea")[0] == "paid"
    keys = [call.kwargs["idempotency_key"] for call in bank.charge.mock_calls]
    assert keys == [keys[0]] * 2
    assert keys[0].endswith(":charge")
    assert len(mail.send.mock_calls) == 2


def test_a_tool_that_sleeps() -> None:
    text, took = called(excerpt_of_tools("sleep"), "remind", text="tea")
    assert (text, took >= 3_600) == ("Remember: tea", True)


def test_a_tool_in_two_versions() -> None:
    tools = excerpt_of_tools("versions")
    assert tools["order"].version == "2"
    assert tools.of_version("order", "1").version == "1"


def test_the_arguments_and_results_of_tools() -> None:
    @attrs.frozen
    class Guest:
        name: str

    @attrs.frozen
    class Booking:
        guest: str
        city: str
        nights: int

    tools = Tools()
    names = {**vars(content), "tools": tools, "chart": str.encode}
    names |= {"Guest": Guest, "Booking": Booking, "Field": Field}
    names |= {"Annotated": Annotated, "Literal": Literal}
    for title in ("arguments", "results"):
        [shown] = blocks_of("docs/howto/tools.md", "py", title)
        exec(shown.text, names)
    city = tools["book"].signature.input_schema["properties"]["city"]
    assert city == {"type": "string", "description": "Where to stay."}

    def called(name: str, arguments: bytes) -> Any:
        context: Any = None
        running = tools[name].run(arguments, context, Threads(1), lambda error: None)
        return json.loads(asyncio.run(running).result or b"")

    booked = called("book", b'{"city": "Bern", "guest": {"name": "Ada"}, "nights": "2"}')
    assert booked["structuredContent"] == {"guest": "Ada", "city": "Bern", "nights": 2}
    kinds = [block["type"] for block in called("report", b'{"month": "May"}')["content"]]
    assert kinds == ["text", "image", "resource", "resource_link"]


def test_an_engine_is_one_argument() -> None:
    [shown] = blocks_of("docs/howto/operations.md", "py")
    compile(
        f"async def shown():\n    {shown.text.replace(chr(10), chr(10) + '    ')}", "page", "exec"
    )
    imported, _, rest = shown.text.partition("\n\n")
    names: dict[str, Any] = {}
    exec(imported, names)
    assert names["for_replicas"] is procrastinate.for_replicas
    assert "RuntimeConfig(engine=for_replicas)" in rest


def test_the_line_for_servers_of_mcp_1_is_in_the_example() -> None:
    [line] = blocks_of("docs/howto/mcp1.md", "py", "")
    [program] = blocks_of("docs/howto/mcp1.md", "python")
    called, _, _ = line.text.partition("(")
    assert f"{called}(server, " in program.text
