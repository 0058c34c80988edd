"""The commands by purpose, with examples: what `taskmachine` prints without a command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["EXAMPLES", "print_overview"]

GROUPS: Final[Mapping[str, Mapping[str, tuple[str, list[str]]]]] = {
    "serve tools": {
        "new": (
            "write a project with three tools and a test",
            ["taskmachine new my-shop"],
        ),
        "dev": (
            "serve tools on this machine and reload them when a Python file changes",
            ["taskmachine dev shop.py", "taskmachine dev shop.py --no-browser"],
        ),
        "serve": (
            "serve tools as tasks over HTTP or stdio",
            [
                "taskmachine serve shop.py --http 127.0.0.1:8000",
                "taskmachine serve demo --stdio --store memory:",
            ],
        ),
        "worker": (
            "run tools for servers started with --engine procrastinate",
            ["taskmachine worker shop.py --store postgresql:///tasks"],
        ),
        "cluster": (
            "run a local cluster for trials: PostgreSQL, server replicas and workers",
            ["taskmachine cluster --replicas 2 --workers 2"],
        ),
    },
    "call tools": {
        "tools": (
            "list the tools of an MCP server, or describe one",
            [
                "taskmachine tools http://127.0.0.1:8000/mcp",
                "taskmachine tools http://127.0.0.1:8000/mcp count",
                'taskmachine tools "taskmachine serve --stdio --store memory:"',
            ],
        ),
        "call": (
            "call a tool on an MCP server and wait for its result",
            [
                "taskmachine call http://127.0.0.1:8000/mcp count to=20",
                "taskmachine call http://127.0.0.1:8000/mcp count --args '{\"to\": 20}' --json",
                'taskmachine call "taskmachine serve --stdio --store memory:" greet name=Ada',
            ],
        ),
    },
    "test and measure": {
        "check": (
            "test an MCP server or client for conformance",
            [
                "taskmachine check http://127.0.0.1:8000/mcp --html report.html",
                'taskmachine check "taskmachine serve --stdio --store memory:"',
                'taskmachine check --client "python client.py {url}"',
            ],
        ),
        "bench": (
            "benchmark this server against a minimal baseline and other MCP servers",
            ["taskmachine bench --no-peers --quick"],
        ),
    },
    "operate": {
        "tasks": (
            "list, inspect, cancel and purge the tasks in a store",
            [
                "taskmachine tasks list --state working",
                "taskmachine tasks show 5fQx",
                "taskmachine tasks cancel 5fQx --store sqlite:shop.db",
            ],
        ),
        "store": (
            "check, back up or migrate a store",
            [
                "taskmachine store check sqlite:taskmachine.db",
                "taskmachine store backup sqlite:taskmachine.db copy.db",
            ],
        ),
    },
    "get to know it": {
        "demo": (
            "demonstrate tasks on a server that is killed and restarted",
            ["taskmachine demo"],
        ),
        "table": (
            "show the transition table and its diagram",
            ["taskmachine table", "taskmachine table --dialect 2025-11-25 --format mermaid"],
        ),
        "completion": (
            "print a script that completes commands and options in a shell",
            [
                "source <(taskmachine completion bash)",
                "taskmachine completion zsh > ~/.zfunc/_taskmachine",
                "taskmachine completion fish > ~/.config/fish/completions/taskmachine.fish",
            ],
        ),
    },
}
"""A summary and examples of each command, by purpose."""

EXAMPLES: Final = {
    name: examples for group in GROUPS.values() for name, (_, examples) in group.items()
}

OPTIONS: Final = {
    "--help": "describe a command, as in: taskmachine serve --help",
    "--version": "show the version and exit",
    "--debug": "show a traceback when an error occurs",
}


def print_overview(console: "Console") -> None:
    """Print every command with its purpose and an example."""
    from rich.table import Table
    from rich.text import Text

    console.print("MCP Tasks as one explicit state machine: server, client, conformance tester.\n")
    console.print(Text.assemble(("usage:", "bold green"), " taskmachine [OPTION] COMMAND ..."))
    for title, commands in GROUPS.items():
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=12, no_wrap=True, style="bold cyan")
        grid.add_column()
        for name, (summary, examples) in commands.items():
            grid.add_row(f"  {name}", summary)
            grid.add_row("", Text(f"$ {examples[0]}", "dim"))
        console.print(Text(f"\n{title}:", "bold green"))
        console.print(grid)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=12, no_wrap=True, style="bold cyan")
    for name, summary in OPTIONS.items():
        grid.add_row(f"  {name}", summary)
    console.print(Text("\noptions:", "bold green"))
    console.print(grid)
