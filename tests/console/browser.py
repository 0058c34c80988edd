"""Chromium, driven by Selenium: the one of the system, without a window."""

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
"""Kept by each run, for a person to look at."""

_T = TypeVar("_T")


class Browser:
    """One window, and what tests do with it."""

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
        """What it returns as soon as that is true; the page may change meanwhile."""

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
        """Leave a mark that a reload would wipe out."""
        self.run("window.mark = true")

    @property
    def is_marked(self) -> bool:
        return bool(self.run("return window.mark === true"))

    def dress(self, width: int, *, is_dark: bool = False, height: int = 900) -> None:
        """The size of the page, and the colours that its reader prefers."""
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
        """Wide and narrow, light and dark; the whole of the page."""
        for width in (1280, 400):
            for is_dark in (False, True):
                self.dress(width, is_dark=is_dark)
                tall = int(self.run("return document.documentElement.scrollHeight"))
                self.dress(width, is_dark=is_dark, height=min(max(tall, 700), 4_000))
                self.keep_picture(f"{name}-{width}-{'dark' if is_dark else 'light'}")
        self.dress(1280)

    def is_too_wide(self) -> bool:
        """Whether the page itself has to be scrolled sideways."""
        wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.run(wide))

    def accessibility_problems(self) -> list[str]:
        """What axe-core calls serious or worse."""
        found = Axe().run(self.driver)
        return [
            f"{violation['id']}: {node['html']:.200}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    def complaints(self) -> list[str]:
        """What the browser refused or failed to do: scripts, styles, connections."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser of its own: nothing is left of it."""
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
    if os.geteuid() == 0:  # as in a container, where the sandbox cannot be had
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=PROGRAMS["chromedriver"])
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
