"""How tasks live that clients of either revision go through."""

from typing import Any, Final

from taskmachine.adapters.conformance.clients.script import (
    FORM,
    Broken,
    Life,
    Question,
    text_result,
)

__all__ = ["WITHOUT_MODE", "breaks", "fails", "paced"]

WITHOUT_MODE: Final = Question(
    "elicitation", {name: value for name, value in FORM.params.items() if name != "mode"}
)


async def paced(life: Life) -> dict[str, Any]:
    """Changes its poll interval on the way."""
    life.interval_ms = 400
    await life.work(1_000)
    life.interval_ms = 700
    await life.work(1_600)
    return text_result("done, at your pace")


async def fails(life: Life) -> dict[str, Any]:
    """Ends with a result that is an error."""
    await life.work(300)
    return {**text_result("it did not work"), "isError": True}


async def breaks(life: Life) -> dict[str, Any]:
    """Ends with an error of JSON-RPC."""
    await life.work(300)
    raise Broken(-32603, "it broke")
