"""Ten questions that people ask: the search of the site finds the section that answers each.

The first click is a result, or "more on this page"; the second is a result below that.
"""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.console.browser import NEEDS_BROWSER, Browser, browsing

QUESTIONS: Final = {
    "my host has no tasks": ("howto/server/#my-host-has-no-tasks", "plain call"),
    "how do I retry": ("howto/tools/#retry-a-tool-or-forbid-it", "repeatable=False"),
    "how do I run it behind nginx": ("howto/server/#run-it-behind-nginx", "proxy_pass"),
    "how do I ask the user something": ("howto/tools/#ask-the-user-something", "ctx.ask"),
    "how do I use PostgreSQL with several replicas": (
        "howto/operations/",
        "--engine procrastinate",
    ),
    "how do I test my own server for conformance": ("howto/check/", "taskmachine check http"),
    "how do I see what runs": ("howto/watch/", "console"),
    "how do I authenticate callers": ("howto/authentication/", "[auth]"),
    "how long is a result kept": ("howto/tools/#how-long-a-result-is-kept", "24 h"),
    "how do I add it to my FastMCP server": ("howto/fastmcp/", "add_extension(Tasks("),
}
"""The question, the section that answers it, and words of the answer."""

PAGES_READ: Final = 3
"""Readers look at the results of that many pages."""

_RESULTS: Final = """
    return [...document.querySelectorAll(".md-search-result__item")].slice(0, arguments[0])
        .flatMap(page => [...page.querySelectorAll("a")].map(link => link.href));
"""


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site: the search does not work on files."""
    handler = partial(_QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        browser.set_viewport(1280)
        yield browser


@NEEDS_BROWSER
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_an_answer_within_two_clicks(
    question: str, address: str, browser: Browser
) -> None:
    section, words = QUESTIONS[question]
    browser.open(address)
    browser.click(".md-search__input")
    browser.type(".md-search__input", question)
    browser.until(
        lambda: address + section in browser.run(_RESULTS, PAGES_READ), f"{section} among results"
    )
    browser.open(address + section)
    page, _, anchor = section.partition("#")
    answer = browser.find(f"[id='{anchor}']" if anchor else "article")
    text = browser.run(
        "let text = ''; for (let e = arguments[0]; e && (e === arguments[0] || e.tagName != 'H2');"
        " e = e.nextElementSibling) text += e.innerText; return text",
        answer,
    )
    assert words in text, page
