"""Take the screenshots of docs/howto/watch.md: `python -m tests.console.pictures`."""

import tempfile
from pathlib import Path
from typing import Final

from tests.console.browser import Browser, browsing
from tests.console.console_process import ADMIN, ALICE, BOB, ConsoleProcess, running_console
from tests.oracle import REPOSITORY

DOCS: Final = REPOSITORY / "docs"


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_console(Path(folder)) as console,
        browsing() as browser,
    ):
        _take(console, browser)


def _take(console: ConsoleProcess, browser: Browser) -> None:
    console.create(ALICE, "echo", text="412 orders are imported.")
    console.create(BOB, "fail", text="Page 3 of the invoice is damaged.")
    gone = console.create(BOB, "steps", gate=console.gate("gone"), of=4)
    console.call(BOB, "tasks/cancel", {"taskId": gone})
    console.create(BOB, "ask_model", topic="rain")
    for number in (1, 2, 3):
        console.open_gate(f"import.{number}")
    console.create(ALICE, "steps", gate=console.gate("import"), of=7)
    asks = console.create(ALICE, "release", version="1.4.2")
    console.until(ALICE, asks, "input_required")
    console.sign_in(browser, ADMIN)
    browser.until_text("#connection", "Live")
    browser.until_text("#rows", "43 %")
    browser.set_viewport(1100, height=420)
    browser.driver.save_screenshot(str(DOCS / "console-list.png"))
    browser.open(f"{console.url}/tasks/{asks}")
    browser.until_text("#connection", "Live")
    browser.set_viewport(1100, height=1_180)
    browser.driver.save_screenshot(str(DOCS / "console-task.png"))


if __name__ == "__main__":
    main()
