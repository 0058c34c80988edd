"""Receiver and requestor of the same dialect, and all dialects on one set of tasks."""

from taskmachine.protocol import (
    receiver_2025_11_25,
    receiver_2026_07_28,
    receiver_erlmcp,
    requestor_2025_11_25,
    requestor_2026_07_28,
    requestor_erlmcp,
)
from tests.protocol.wires import Wires

OF_2025 = {"2025-11-25": (receiver_2025_11_25.RULES, requestor_2025_11_25.SPEECH)}
OF_2026 = {
    "2026-07-28": (
        receiver_2026_07_28.RULES,
        requestor_2026_07_28.speech({"elicitation": {}, "sampling": {}}),
    )
}


OF_ERLMCP = {"erlmcp": (receiver_erlmcp.RULES, requestor_erlmcp.SPEECH)}


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
