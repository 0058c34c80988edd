"""Receiver and requestor of the same dialect, and all dialects on one set of tasks."""

from taskmachine.protocol import DIALECTS
from taskmachine.protocol.dialects.mcp_2026_07_28.requestor import Requestor2026
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.dialects.requestor import RequestorDialect
from tests.protocol.wires import Wires

ROLES: dict[str, tuple[ReceiverDialect, RequestorDialect]] = {
    name: (entry.receiver, entry.requestor) for name, entry in DIALECTS.items()
}
ABLE = Requestor2026({"elicitation": {}, "sampling": {}})

OF_2025 = {"2025-11-25": ROLES["2025-11-25"]}
OF_2026 = {"2026-07-28": (ROLES["2026-07-28"][0], ABLE)}
OF_ERLMCP = {"erlmcp": ROLES["erlmcp"]}


class WiresErlmcp(Wires):
    spoken = OF_ERLMCP


class Wires2025(Wires):
    spoken = OF_2025


class Wires2026(Wires):
    spoken = OF_2026


class AllWires(Wires):
    spoken = OF_2025 | OF_2026 | OF_ERLMCP


TestWires2025 = Wires2025.TestCase
TestWires2026 = Wires2026.TestCase
TestWiresErlmcp = WiresErlmcp.TestCase
TestAllWires = AllWires.TestCase
