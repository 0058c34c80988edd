"""The telemetry blocks of docs/howto/watch.md: the program runs, the spans are emitted."""

import asyncio
import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from taskmachine.adapters.runtime.runtime import RuntimeConfig, open_runtime
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from tests.adapters.connections import Connection
from tests.adapters.telemetry.exporters import Telemetry
from tests.site.pages import blocks_of

PAGE = "docs/howto/watch.md"


def deploying(telemetry: Telemetry) -> Tools:
    tools = Tools()
    tracer = telemetry.tracers.get_tracer("tool author")

    async def build() -> str:
        return "1.4"

    @tools.task()
    async def deploy(ctx: Context) -> str:
        await ctx.step("build", build)
        answer = await ctx.ask("go", form("Now?", {"type": "object", "properties": {}}), park=True)
        with tracer.start_as_current_span("..."):
            return str(answer.action)

    return tools


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    [program] = blocks_of(PAGE, "py")
    imports, _, rest = program.text.partition("\n\n")
    source = f"{imports}\nasync def main():\n{textwrap.indent(rest, '    ')}"
    assert "sqlite:tasks.db" in source
    names: dict[str, Any] = {
        "open_runtime": open_runtime,
        "tools": Tools(),
        "tracers": TracerProvider(),
        "meters": MeterProvider(),
    }
    exec(source.replace("tasks.db", str(tmp_path / "tasks.db")), names)
    asyncio.run(names["main"]())


async def test_span_tree_of_the_page_matches_the_emitted_spans() -> None:
    [tree] = blocks_of(PAGE, "text", "one trace")
    shown = Counter(re.findall(r"^(?:[│├└ ]+─+ )?(\S+(?: deploy)?)", tree.text, re.MULTILINE))

    telemetry = Telemetry()
    tools = deploying(telemetry)
    async with open_runtime(
        "memory:", tools, RuntimeConfig(observer=telemetry.observer)
    ) as runtime:
        line = Connection(runtime, "2026-07-28", "alice")
        task_id = await line.create("deploy", {})
        await telemetry.until("execute_tool deploy")
        answers = {"go": {"action": "accept", "content": {}}}
        await line.call("tasks/update", {"taskId": task_id, "inputResponses": answers})
        await telemetry.until("execute_tool deploy", 2)
        emitted = Counter(span.name for span in telemetry.spans)
        del emitted["tasks/update"]  # sent by the client that answers
        assert emitted == shown
