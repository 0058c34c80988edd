"""The pages of the console in a real browser: forms, permissions, reconnection, long lists."""

import re
import time

import pytest

from tests.console.browser import NEEDS_BROWSER, Browser
from tests.console.console_process import ADMIN, ALICE, BOB, ConsoleProcess

pytestmark = [NEEDS_BROWSER, pytest.mark.slow, pytest.mark.browser]

SCRIPT = "</pre><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"


def open_task(console: ConsoleProcess, browser: Browser, task_id: str) -> None:
    browser.open(f"{console.url}/tasks/{task_id}")
    browser.until_text("#connection", "Live")
    browser.mark()


def test_a_question_is_answered_in_its_form(console: ConsoleProcess, browser: Browser) -> None:
    """An invalid answer is shown again with its errors."""
    task_id = console.create(ALICE, "release", version="1.4.2")
    console.until(ALICE, task_id, "input_required")
    console.sign_in(browser, ALICE)
    open_task(console, browser, task_id)
    browser.pictures("question")
    browser.type("[name='field.replicas']", "99")
    browser.type("[name='field.note']", "after <lunch>")
    browser.click("button[value=accept]")
    browser.until_text(".question", "This must be a whole number from 1 to 20.")
    assert "Please fill this in." in browser.text(".question")
    assert browser.find("[name='field.note']").get_attribute("value") == "after <lunch>"
    browser.pictures("question-refused")
    assert not browser.accessibility_problems()
    assert console.shown(ALICE, task_id)["status"] == "input_required"
    browser.type("[name='field.replicas']", "4")
    browser.find("[name='field.stage']").send_keys("Live")
    browser.click("[name='field.confirmed']")
    browser.click("button[value=accept]")
    browser.until_text("#outcome", "1.4.2 runs in live, 4 times.")
    browser.until_text("#questions", "Answered")
    assert console.shown(ALICE, task_id)["status"] == "completed"


def test_input_survives_an_update_of_the_task(console: ConsoleProcess, browser: Browser) -> None:
    task_id = console.create(ALICE, "ask_model", topic="rain")
    console.until(ALICE, task_id, "input_required")
    console.sign_in(browser, ALICE)
    open_task(console, browser, task_id)
    browser.type("[name=reply]", "It rains in Bergen.")
    console.server.kill()
    browser.until_text("#connection", "Connection lost")
    console.server.start()
    browser.until_text("#connection", "Live")
    assert browser.is_marked
    assert browser.find("[name=reply]").get_attribute("value") == "It rains in Bergen."
    browser.click("button[value=accept]")
    browser.until_text("#outcome", "It rains in Bergen.")


def test_cancelling_needs_a_confirmation(console: ConsoleProcess, browser: Browser) -> None:
    task_id = console.create(ALICE, "steps", gate=console.gate("never"), of=1)
    console.sign_in(browser, ALICE)
    open_task(console, browser, task_id)
    assert not browser.find("#confirm-cancel button").is_displayed()
    browser.click("#confirm-cancel summary")
    assert browser.find("#confirm-cancel button").is_displayed()
    browser.keep_picture("cancel")
    assert console.shown(ALICE, task_id)["status"] == "working"
    browser.click("#confirm-cancel button")
    browser.until_text("#summary .state", "cancelled")
    assert console.shown(ALICE, task_id)["status"] == "cancelled"


def test_tasks_of_another_owner_are_not_shown(console: ConsoleProcess, browser: Browser) -> None:
    hidden = console.create(BOB, "echo", text="by bob")
    mine = console.create(ALICE, "echo", text="by alice")
    console.sign_in(browser, ALICE)
    browser.until_text(f"#task-{mine}", "by alice")
    later = console.create(BOB, "echo", text="by bob")
    mine = console.create(ALICE, "echo", text="by alice, later")
    browser.until_text(f"#task-{mine}", "by alice, later")
    for task_id in (hidden, later):
        assert task_id not in browser.driver.page_source
        browser.open(f"{console.url}/tasks/{task_id}")
        assert browser.text("h1") == "Not found"
    assert "by bob" not in browser.driver.page_source
    browser.pictures("not-found")
    browser.click(".button")
    browser.until(lambda: browser.find("#rows"), "the list is there")
    browser.click(".top form button")
    browser.until(lambda: browser.find("#shown"), "the login page is there")
    console.sign_in(browser, ADMIN)
    browser.until_text(f"#task-{later}", "by bob")
    browser.until_text(f"#task-{mine}", "token:alice")


def test_a_list_reconnects_after_a_restart_of_the_server(
    console: ConsoleProcess, browser: Browser
) -> None:
    console.sign_in(browser, ALICE)
    browser.until_text("#connection", "Live")
    browser.mark()
    task_id = console.create(ALICE, "steps", gate=console.gate("lost"), of=1)
    browser.until_text(f"#task-{task_id}", "working")
    console.server.kill()
    browser.until_text("#connection", "Connection lost. Trying again")
    browser.pictures("lost")
    console.open_gate("lost.1")
    console.open_gate("lost")
    console.server.start()
    browser.until_text("#connection", "Live")
    browser.until_text(f"#task-{task_id}", "completed")
    new = console.create(ALICE, "echo", text="afterwards")
    browser.until_text(f"#task-{new}", "afterwards")
    assert browser.is_marked, "nothing was loaded again"


def test_every_action_is_reachable_by_keyboard(console: ConsoleProcess, browser: Browser) -> None:
    task_id = console.create(ALICE, "steps", gate=console.gate("keys"), of=1)
    console.sign_in(browser, ALICE)
    open_task(console, browser, task_id)
    active = browser.driver.switch_to
    browser.run("document.activeElement.blur()")
    seen = []
    for _ in range(12):
        active.active_element.send_keys("\ue004")
        seen.append(active.active_element.text)
        if "Cancel" in seen[-1]:
            break
    assert seen[0] == "Skip to the content"
    assert "Cancel" in seen[-1]
    active.active_element.send_keys("\ue007\ue004\ue007")  # open, to the button, press
    browser.until_text("#summary .state", "cancelled")


def test_no_page_has_a_serious_accessibility_problem(
    console: ConsoleProcess, browser: Browser
) -> None:
    asks = console.create(ALICE, "release", version="2.0")
    models = console.create(ALICE, "ask_model", topic="snow")
    fails = console.create(ALICE, "fail", text="Page 3 is damaged.")
    for task_id in (asks, models):
        console.until(ALICE, task_id, "input_required")
    browser.open(f"{console.url}/login")
    assert not browser.accessibility_problems()
    console.sign_in(browser, ADMIN)
    for path in ("/", "/?state=failed&tool=none", *(f"/tasks/{t}" for t in (asks, models, fails))):
        for is_dark in (False, True):
            for width in (1280, 400):
                browser.set_viewport(width, is_dark=is_dark)
                browser.open(console.url + path)
                assert not browser.accessibility_problems(), (path, width, is_dark)
                assert not browser.is_too_wide(), (path, width)
    browser.pictures("failed")


def test_a_task_shows_its_steps_its_sleep_and_its_failed_attempt(
    console: ConsoleProcess, browser: Browser
) -> None:
    sleeps = console.create(ALICE, "import_orders", pages=3)
    retried = console.create(ALICE, "import_orders", pages=4)
    console.sign_in(browser, ADMIN)
    browser.until_text(f"#task-{sleeps}", "sleeps until ")
    browser.until_text(f"#task-{retried}", "attempt 3 of 6 from ")
    browser.pictures("waiting-list")
    for task_id, name, facts in (
        (sleeps, "sleep", ("sleeps until ", "Failed attempts\n1", "Recorded steps\n4")),
        (retried, "retry", ("attempt 3 of 6 from ", "Failed attempts\n2", "Recorded steps\n4")),
    ):
        open_task(console, browser, task_id)
        for fact in facts:
            browser.until_text("#summary", fact)
        assert "The shop " in browser.text("#summary pre")
        assert ' bytes: {"page":1,"rows":[{"order":100,' in browser.text("#timeline")
        assert ("nap" in browser.text("#timeline")) is (name == "sleep")
        browser.pictures(f"waiting-{name}")
        for width in (1280, 400):
            browser.set_viewport(width)
            assert not browser.is_too_wide(), (name, width)
            assert not browser.accessibility_problems()
    assert not browser.console_errors()


def test_scripts_in_a_task_do_not_run(console: ConsoleProcess, browser: Browser) -> None:
    tasks = [console.create(ALICE, tool, text=SCRIPT) for tool in ("echo", "fail")]
    tasks.append(console.create(ALICE, "release", version=SCRIPT))
    console.until(ALICE, tasks[-1], "input_required")
    console.sign_in(browser, ALICE)
    for path in ("/", *(f"/tasks/{task_id}" for task_id in tasks)):
        browser.open(console.url + path)
        browser.until_text("#main", "<script>document.title")
        assert "run" not in browser.driver.title
    assert not browser.console_errors(), "the policy had nothing to do"


def test_a_thousand_tasks_are_paged_through(console: ConsoleProcess, browser: Browser) -> None:
    made = [console.create(BOB, "echo", text=f"number {n}") for n in range(1_000)]
    console.sign_in(browser, BOB)
    browser.click("select[name=size] option:nth-child(2)")
    browser.click(".filter button")
    browser.until(lambda: len(browser.all("#rows tr")) == 200, "a page of 200")
    seen: list[str] = []
    while True:
        rows = browser.run("return [...document.querySelectorAll('#rows tr')].map((r) => r.id)")
        seen += rows
        older = browser.all("a[rel=next]")
        if not older:
            break
        browser.click("a[rel=next]")
        first = f"#{rows[0]}"
        browser.until(lambda gone=first: not browser.all(gone), "older ones")  # type: ignore[misc]
    assert len(seen) == len(set(seen))
    assert {f"task-{task_id}" for task_id in made} <= set(seen)
    assert re.search(r"older tasks", browser.text(".pages"))


def test_a_page_of_a_thousand_stays_responsive(console: ConsoleProcess, browser: Browser) -> None:
    """While ten tasks report each second, no frame takes long and the server has little load."""
    for number in range(990):
        console.create(ADMIN, "echo", text=f"number {number}")
    pulses = [console.create(ADMIN, "pulse", pause_ms=1_000) for _ in range(10)]
    console.sign_in(browser, ADMIN)
    browser.open(f"{console.url}/?size=1000&owner=token:ops")
    browser.until_text("#connection", "Live")
    for task_id in pulses:
        browser.until_text(f"#task-{task_id}", "pulse")
    before, began = cpu_s(console.server.pid), time.monotonic()
    longest = browser.driver.execute_async_script(
        """
        const done = arguments[0], end = performance.now() + 5000;
        let last = performance.now(), longest = 0, changes = 0;
        new MutationObserver((all) => { changes += all.length; })
            .observe(document.getElementById("rows"), {childList: true});
        const frame = (now) => {
            longest = Math.max(longest, now - last);
            last = now;
            if (now < end) requestAnimationFrame(frame);
            else done([longest, changes, document.querySelectorAll("#rows tr").length]);
        };
        requestAnimationFrame(frame);
        """
    )
    share = (cpu_s(console.server.pid) - before) / (time.monotonic() - began)
    frame_ms, changes, rows = longest
    print(f"{rows} rows, {changes} replaced in 5 s: longest frame {frame_ms:.0f} ms, "
          f"the server used {100 * share:.0f} % of a processor")  # fmt: skip
    assert rows == 1_000
    assert changes >= 20
    assert frame_ms < 500
    assert share < 0.5
    for task_id in pulses:
        console.call(ADMIN, "tasks/cancel", {"taskId": task_id})


def cpu_s(pid: int) -> float:
    """Return the processor time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
