"""The system's Chromium, headless, driven by Selenium."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.oracle import REPOSITORY
from tests.wire_faults.server_process import eventually

__all__ = ["NEEDS_BROWSER", "SCREENSHOTS", "Browser", "browsing"]

PROGRAMS: Final = {name: shutil.which(name) for name in ("chromium", "chromedriver")}

NEEDS_BROWSER: Final = pytest.mark.skipif(
    None in PROGRAMS.values(),
    reason="needs a browser: install chromium and chromium-driver (Debian's names)",
)

SCREENSHOTS: Final = REPOSITORY / "build" / "console-screenshots"
"""Screenshots of the last run, for manual inspection."""

_T = TypeVar("_T")


class Browser:
    """One browser window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def type(self, selector: str, text: str) -> None:
        element = self.find(selector)
        element.clear()
        element.send_keys(text)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, is_so: Callable[[], _T], what: str) -> _T:
        """Wait until the condition is true and return it; the page may change meanwhile."""

        def look() -> Any:
            try:
                return is_so()
            except (NoSuchElementException, StaleElementReferenceException):
                return None

        found: _T = eventually(look, what)
        return found

    def until_text(self, selector: str, text: str) -> None:
        self.until(lambda: text in self.text(selector), f"{text!r} in {selector}")

    def mark(self) -> None:
        """Set a mark that a reload removes."""
        self.run("window.mark = true")

    @property
    def is_marked(self) -> bool:
        return bool(self.run("return window.mark === true"))

    def set_viewport(self, width: int, *, is_dark: bool = False, height: int = 900) -> None:
        """Set the size of the page and the preferred colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def keep_picture(self, name: str) -> Path:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def pictures(self, name: str) -> None:
        """Save pictures of the whole page: wide and narrow, light and dark."""
        for width in (1280, 400):
            for is_dark in (False, True):
                self.set_viewport(width, is_dark=is_dark)
                tall = int(self.run("return document.documentElement.scrollHeight"))
                self.set_viewport(width, is_dark=is_dark, height=min(max(tall, 700), 4_000))
                self.keep_picture(f"{name}-{width}-{'dark' if is_dark else 'light'}")
        self.set_viewport(1280)

    def is_too_wide(self) -> bool:
        """Return whether the page scrolls horizontally."""
        wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.run(wide))

    def accessibility_problems(self) -> list[str]:
        """Return the problems that axe-core rates as serious or critical."""
        found = Axe().run(self.driver)
        return [
            f"{violation['id']}: {node['html']:.200}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    def console_errors(self) -> list[str]:
        """Return the errors in the browser's log, such as blocked scripts and failed requests."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser with a new profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(PROGRAMS["chromium"])
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--force-prefers-reduced-motion",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:  # as in a container, where the sandbox does not work
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=PROGRAMS["chromedriver"])
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
