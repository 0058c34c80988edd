"""The filter of the requirements, in a browser."""

from pathlib import Path

from tests.console.browser import NEEDS_BROWSER, Browser, browsing

ROW = "details.requirement"


@NEEDS_BROWSER
def test_requirements_can_be_searched_filtered_and_linked(site: Path) -> None:
    page = (site / "reference" / "requirements" / "index.html").as_uri()
    with browsing() as browser:
        browser.open(page)
        browser.set_viewport(1280)
        assert not browser.is_too_wide()
        everything = shown(browser)
        assert browser.text("output") == f"{everything} of {everything}"
        browser.type("[name=words]", "ttl")
        found = shown(browser)
        assert 0 < found < 200
        browser.run("document.querySelector('[name=revision]').value = '2026-07-28'")
        browser.run(
            "document.querySelector('.requirements-filter').dispatchEvent(new Event('input'))"
        )
        assert 0 < shown(browser) < found
        assert browser.text("output") == f"{shown(browser)} of {everything}"
        browser.open(f"{page}#2025-11-25:terminal-final")
        opened = browser.run(f"return document.querySelector('{ROW}[open]').id")
        assert opened == "2025-11-25:terminal-final"


def shown(browser: Browser) -> int:
    count: int = browser.run(f"return document.querySelectorAll('{ROW}:not([hidden])').length")
    return count
