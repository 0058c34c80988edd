"""A correct client of both revisions, raw JSON, with bugs that can be switched on.

`a_client.py [--bug WORDS] [--only TOOL,TOOL] [--in-turn] REVISION URL`, or a command instead of
the URL.  It calls every tool once, as a task where it can, and answers questions.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from tests.conformance.clients.client_2025_11_25 import Legacy
from tests.conformance.clients.client_2026_07_28 import Modern
from tests.conformance.clients.wires import HttpWire, Left, PipeWire


async def main(arguments: Sequence[str]) -> None:
    """As the arguments say; Left if that is not possible."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--in-turn", action="store_true")
    parser.add_argument("revision")
    parser.add_argument("target", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    bugs, only = frozenset(given.bug), frozenset(filter(None, given.only.split(",")))
    wire: Any
    if given.target[0].startswith("http"):
        wire = HttpWire(given.target[0], bugs)
    else:
        wire = PipeWire(given.target, bugs)
        await wire.start()
    client = (Legacy if given.revision == Legacy.revision else Modern)(wire, bugs)
    try:
        await client.begin()
        await client.list_tools()
        await client.call_all(only, in_turn=given.in_turn)
        await client.end()
    finally:
        client.stop()
        await wire.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except Left as left:
        sys.exit(f"error: {left}")
