"""A task is followed from its creation to its end, in a real browser."""

from tests.console.browser import NEEDS_BROWSER, Browser
from tests.console.console_process import ALICE, ConsoleProcess

pytestmark = NEEDS_BROWSER


def test_a_task_is_watched_from_its_beginning_to_its_end(
    console: ConsoleProcess, browser: Browser
) -> None:
    """The list and the task's page follow it without a reload."""
    console.sign_in(browser, ALICE)
    browser.until_text("#connection", "Live")
    browser.mark()
    task_id = console.create(ALICE, "steps", gate=console.gate("watched"), of=2)
    row = f"#task-{task_id}"
    browser.until_text(row, "working")
    console.open_gate("watched.1")
    browser.until_text(row, "50 %")
    assert browser.is_marked
    browser.pictures("list")
    browser.until(lambda: not browser.is_too_wide(), "it fits")

    browser.click(f"{row} a")
    browser.until_text("#connection", "Live")
    browser.mark()
    browser.until_text("#summary", "1 of 2")
    assert not browser.all("#path .taken.now rect[fill='#15803d']")
    console.open_gate("watched.2")
    browser.until_text("#summary", "2 of 2")
    browser.pictures("task-working")
    console.open_gate("watched")
    browser.until_text("#summary .state", "completed")
    browser.until_text("#outcome", "2 steps")
    browser.until_text("#timeline", "complete")
    browser.until_text("#announce", "The task is completed.")
    browser.until_text("#connection", "This task has ended.")
    assert "completed" in browser.driver.title
    assert browser.is_marked, "nothing was loaded again"
    assert [button.text for button in browser.all("#actions button")] == ["Run again"]
    assert browser.all("#path .taken.now rect[fill='#15803d']")
    browser.pictures("task-completed")
    assert not browser.console_errors()
