"""A server process with a console, and calls to it with the tokens of three users."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx

from tests.adapters.transports.wire import CAPABILITIES
from tests.console.browser import Browser
from tests.wire_faults.server_process import PATIENCE_S, Server, eventually, serving

__all__ = ["ADMIN", "ALICE", "BOB", "ConsoleProcess", "running_console"]

ALICE: Final = "alice-has-this-token-for-the-tests-1"
BOB: Final = "bob-has-this-token-for-the-tests-234"
ADMIN: Final = "admin-has-this-token-for-the-tests-5"

ABLE: Final[dict[str, Any]] = {**CAPABILITIES, "sampling": {}}


class ConsoleProcess:
    """A server process, and an MCP client for it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._numbers = count(1)
        # Tests kill the server.
        retrying = httpx.HTTPTransport(retries=3)
        self._client = httpx.Client(timeout=PATIENCE_S, transport=retrying)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/console"

    def call(self, token: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the response."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": ABLE,
        }
        response = self._client.post(
            f"http://127.0.0.1:{self.server.port}/mcp",
            json={
                "jsonrpc": "2.0",
                "id": next(self._numbers),
                "method": method,
                "params": {**params, "_meta": meta},
            },
            headers={
                "accept": "application/json, text/event-stream",
                "authorization": f"Bearer {token}",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": method,
                "mcp-name": params.get("name", params.get("taskId", "")),
            },
        )
        answer: dict[str, Any] = response.json()
        return answer

    def create(self, token: str, tool: str, **arguments: Any) -> str:
        """Create a task and return its id."""
        answer = self.call(token, "tools/call", {"name": tool, "arguments": arguments})
        return str(answer["result"]["taskId"])

    def shown(self, token: str, task_id: str) -> dict[str, Any]:
        result: dict[str, Any] = self.call(token, "tasks/get", {"taskId": task_id})["result"]
        return result

    def until(self, token: str, task_id: str, status: str) -> dict[str, Any]:
        """Wait until a task has that status and return it."""

        def look() -> dict[str, Any] | None:
            shown = self.shown(token, task_id)
            return shown if shown["status"] == status else None

        found: dict[str, Any] = eventually(look, f"{task_id} is {status}")
        return found

    def sign_in(self, browser: Browser, token: str) -> None:
        browser.open(f"{self.url}/login")
        browser.type("#shown", token)
        browser.click("main button")
        browser.until(lambda: browser.find("#rows"), "the list is there")

    def close(self) -> None:
        self._client.close()

    def gate(self, name: str) -> str:
        return str(self.folder / name)

    def open_gate(self, name: str) -> None:
        """Let the tools that wait for this gate continue."""
        Path(self.gate(name)).touch()


@contextmanager
def running_console(folder: Path) -> Iterator[ConsoleProcess]:
    """Run a server with the tokens of alice, bob and an admin."""
    tokens = folder / "tokens.toml"
    tokens.touch(0o600)
    tokens.write_text(
        f'alice = "{ALICE}"\nbob = "{BOB}"\nops = {{ token = "{ADMIN}", scopes = ["admin"] }}\n'
    )
    with serving(
        folder, tools="tests.console.tools:TOOLS", auth={"kind": "tokens", "tokens": str(tokens)}
    ) as server:
        console = ConsoleProcess(server, folder)
        try:
            yield console
        finally:
            console.close()
