"""Ten questions that people ask: the site's search finds the section that answers each of them.

The first click is a search result, the second a link of that page.
"""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

QUESTIONS: Final = {
    "my host has no tasks": ("howto/server/#my-host-has-no-tasks", "plain call"),
    "how do I retry": ("howto/tools/#retry-a-tool-or-forbid-it", "retry=False"),
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

_STOP: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by do for from has how i in is it my no of on or own something the "
        "to what when with",
    )
)


@pytest.fixture(scope="session")
def sections(site: Path) -> list[dict[str, str]]:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found: list[dict[str, str]] = index["docs"]
    assert len(found) > 200
    return found


def terms(text: str) -> list[str]:
    """Lower-case words without endings, as the search of the site stems them."""
    words = re.findall(r"[a-z0-9_]+", re.sub(r"<[^>]*>", " ", text).lower())
    return [re.sub(r"(?:ing|ed|es|s)$", "", word) for word in words if word not in _STOP]


def search(question: str, sections: list[dict[str, str]], limit: int = 5) -> list[str]:
    """Rank sections by the terms of the question that they have; titles count ten times."""
    asked = set(terms(question))
    having = Counter(
        term for section in sections for term in {*terms(section["title"]), *terms(section["text"])}
    )

    def score(section: dict[str, str]) -> float:
        title, text = Counter(terms(section["title"])), Counter(terms(section["text"]))
        rarity = {term: math.log(len(sections) / (1 + having[term])) for term in asked}
        size = 1 + sum(text.values()) / 200
        return sum(
            rarity[term] * (10 * bool(title[term]) + min(text[term], 5) / size) for term in asked
        )

    ranked = sorted(sections, key=score, reverse=True)
    return [section["location"] for section in ranked[:limit]]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_an_answer_within_two_clicks(
    question: str, site: Path, sections: list[dict[str, str]]
) -> None:
    answer, words = QUESTIONS[question]
    [section] = [one for one in sections if one["location"] == answer]
    page, _, anchor = answer.partition("#")
    shown = (site / page / "index.html").read_text()
    if anchor:
        shown = shown.partition(f'id="{anchor}"')[2].partition("<h2")[0]
    assert words in re.sub(r"<[^>]*>", "", shown).replace("&quot;", '"'), section["title"]
    found = search(question, sections)
    reached = {*found, *(link for first in found[:3] for link in _links(site, first))}
    assert answer in reached, found


def _links(site: Path, location: str) -> set[str]:
    """The links in the content of a page, as locations of the site."""
    page = location.partition("#")[0]
    content = (site / page / "index.html").read_text()
    content = content.partition("<article")[2].partition("</article")[0]
    folder = Path(page)
    found = set()
    for target, anchor in re.findall(
        r'href=.([^":#]*)(#[^"]*)?"', content.partition("</article")[0]
    ):
        path = (site / folder / target).resolve().relative_to(site.resolve()).as_posix()
        found.add(f"{'' if path == '.' else f'{path}/'}{anchor}")
    return found
