"""Take the pictures of docs/howto/watch.md: `python -m tests.console.pictures`."""

import tempfile
from pathlib import Path
from typing import Final

from tests.console.browser import Browser, browsing
from tests.console.house import ADMIN, ALICE, BOB, House, opened
from tests.oracle import REPOSITORY

DOCS: Final = REPOSITORY / "docs"


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(Path(folder)) as house,
        browsing() as browser,
    ):
        _take(house, browser)


def _take(house: House, browser: Browser) -> None:
    house.create(ALICE, "echo", text="412 orders are imported.")
    house.create(BOB, "fail", text="Page 3 of the invoice is damaged.")
    gone = house.create(BOB, "steps", gate=house.gate("gone"), of=4)
    house.call(BOB, "tasks/cancel", {"taskId": gone})
    house.create(BOB, "ask_model", topic="rain")
    for number in (1, 2, 3):
        house.let(f"import.{number}")
    house.create(ALICE, "steps", gate=house.gate("import"), of=7)
    asks = house.create(ALICE, "release", version="1.4.2")
    house.until(ALICE, asks, "input_required")
    house.sign_in(browser, ADMIN)
    browser.until_text("#connection", "Live")
    browser.until_text("#rows", "43 %")
    browser.dress(1100, height=420)
    browser.driver.save_screenshot(str(DOCS / "console-list.png"))
    browser.open(f"{house.url}/tasks/{asks}")
    browser.until_text("#connection", "Live")
    browser.dress(1100, height=1_180)
    browser.driver.save_screenshot(str(DOCS / "console-task.png"))


if __name__ == "__main__":
    main()
