"""The URL of a store, and what to write instead of a wrong one."""

import pytest

from taskmachine.adapters.stores import check_url
from taskmachine.statemachine import ConfigurationError


@pytest.mark.parametrize("url", ["memory:", "sqlite:x.db", "postgres://h/d", "postgresql:///d"])
def test_every_known_scheme_is_accepted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("x.db", "did you mean sqlite:x.db?"),
        ("folder/tasks", "did you mean sqlite:folder/tasks?"),
        ("memory", "did you mean memory:?"),
        ("sqllite:x.db", "did you mean sqlite:x.db?"),
        ("postgress://u:hidden@h/d", "did you mean postgres://h/d?"),
        ("mysql://u:hidden@h/d", "the scheme must be one of memory, postgres, postgresql, sqlite"),
        ("", "the scheme must be one of memory, postgres, postgresql, sqlite"),
    ],
)
def test_a_wrong_url_comes_with_the_right_one(url: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_url(url)
    said = str(caught.value)
    assert said.startswith("no store for '")
    assert said.endswith(f": {hint}")
    assert "hidden" not in said
