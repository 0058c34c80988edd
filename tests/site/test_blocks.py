"""Every block of every page is executed or compared by a test, and this is the list of them.

Somebody who writes a page gives each block a test and adds a line here: docs/testing.md says how.
`console` needs none: such commands are run for every page by tests/test_docs.py.
"""

import re
from collections import Counter
from typing import Final

import pytest

from tests.oracle import REPOSITORY
from tests.site.pages import PAGES, blocks_of

_EXAMPLES: Final = "tests/test_docs.py::test_the_example_prints_what_the_page_says"
_GENERATED: Final = "tests/test_docs.py::test_generated_documents_are_up_to_date"
_TUTORIAL: Final = (
    "tests/site/test_tutorial.py::test_whoever_follows_the_tutorial_has_a_durable_server"
)
_OPERATIONS: Final = "tests/adapters/engines/test_operations.py"
_COMMANDS: Final = "tests/site/test_commands.py"
_EXCERPTS: Final = "tests/site/test_excerpts.py"
_README: Final = "tests/site/test_readme.py"

CLAIMS: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "CONTRIBUTING.md": {
        "sh": (1, f"{_COMMANDS}::test_contributors_are_told_the_test_command_of_the_readme"),
    },
    "README.md": {
        "sh": (4, f"{_README}::test_every_command_of_the_readme"),
        "python": (2, f"{_README}::test_every_program_of_the_readme"),
        "text": (1, f"{_README}::test_every_program_of_the_readme"),
    },
    "docs/adapters.md": {
        "toml": (
            1,
            "tests/test_examples.py::test_the_store_is_found_by_the_entry_point_of_the_guide",
        ),
        "python": (1, _EXAMPLES),
        "text": (1, _EXAMPLES),
    },
    "docs/authentication.md": {
        "toml": (
            4,
            "tests/adapters/transports/test_authentication.py"
            "::test_the_settings_that_the_page_shows_are_accepted",
        ),
    },
    "docs/chaos.md": {"sh": (1, f"{_COMMANDS}::test_programs_of_the_tests_know_their_options")},
    "docs/cli.md": {
        "text": (
            7,
            "tests/adapters/cli/test_operators.py::test_the_document_shows_what_is_printed",
        ),
    },
    "docs/client.md": {
        "python": (1, _EXAMPLES),
        "text": (1, _EXAMPLES),
        "": (1, f"{_COMMANDS}::test_the_usage_of_call_is_what_it_takes"),
        "sh": (1, f"{_COMMANDS}::test_calls_of_the_page_are_answered"),
    },
    "docs/conformance.md": {
        "shell": (
            3,
            "tests/conformance/test_command.py::test_the_commands_of_the_page_are_understood",
        ),
        "toml": (1, f"{_EXCERPTS}::test_the_profile_is_understood"),
        "yaml": (1, f"{_EXCERPTS}::test_the_steps_of_continuous_integration_are_understood"),
    },
    "docs/console.md": {
        "shell": (
            1,
            "tests/adapters/console/test_mounted.py"
            "::test_the_link_that_the_command_prints_lets_its_reader_in",
        ),
        "python": (1, _EXAMPLES),
        "text": (1, _EXAMPLES),
    },
    "docs/endpoints.md": {
        "js": (1, f"{_EXCERPTS}::test_the_script_listens_to_what_is_served"),
        "json": (
            1,
            "tests/adapters/transports/test_openapi.py::test_the_page_for_people_says_the_same",
        ),
    },
    "docs/findings.md": {
        "sh": (1, f"{_EXCERPTS}::test_findings_are_of_the_versions_that_are_pinned"),
        "": (16, f"{_EXCERPTS}::test_findings_are_transcripts_of_known_requirements"),
    },
    "docs/http.md": {
        "py": (1, f"{_EXCERPTS}::test_a_tool_that_asks_first"),
        "python": (1, _EXAMPLES),
        "text": (1, _EXAMPLES),
    },
    "docs/interoperability.md": {
        "sh": (1, f"{_COMMANDS}::test_programs_of_the_tests_know_their_options"),
    },
    "docs/migration.md": {"text": (10, _GENERATED)},
    "docs/operations.md": {
        "text": (1, "tests/adapters/cli/test_cluster.py::documented"),
        "toml": (1, f"{_OPERATIONS}::test_the_settings_are_understood"),
        "sh": (5, f"{_OPERATIONS}::test_every_block_of_the_page_is_run"),
        "sql": (1, f"{_OPERATIONS}::test_every_block_of_the_page_is_run"),
    },
    "docs/performance.md": {
        "text": (1, _GENERATED),
        "sh": (
            1,
            "tests/adapters/cli/bench/test_command.py::test_commands_of_the_page_are_understood",
        ),
    },
    "docs/receiver.md": {
        "python": (
            1,
            "tests/adapters/client/test_receiving_example.py"
            "::test_the_example_of_the_page_prints_what_the_page_says",
        ),
        "text": (
            1,
            "tests/adapters/client/test_receiving_example.py"
            "::test_the_example_of_the_page_prints_what_the_page_says",
        ),
        "py": (
            1,
            "tests/adapters/bridges/mcp1/test_client.py"
            "::test_the_example_of_the_page_prints_what_the_page_says",
        ),
    },
    "docs/runtime.md": {"python": (1, _EXAMPLES), "text": (1, _EXAMPLES)},
    "docs/sans-io.md": {"python": (1, _EXAMPLES), "text": (1, _EXAMPLES)},
    "docs/sdk-fastmcp.md": {
        "sh": (1, f"{_COMMANDS}::test_extras_that_pages_name_are_there"),
        "python": (1, "tests/adapters/bridges/test_fastmcp_example.py::test_the_page_is_executed"),
        "text": (1, "tests/adapters/bridges/test_fastmcp_example.py::test_the_page_is_executed"),
    },
    "docs/sdk-mcp-client.md": {
        "python": (
            1,
            "tests/adapters/bridges/mcp/test_client_docs.py::test_the_page_prints_what_it_says",
        ),
        "text": (
            1,
            "tests/adapters/bridges/mcp/test_client_docs.py::test_the_page_prints_what_it_says",
        ),
        "py": (
            1,
            "tests/adapters/bridges/mcp/test_client_docs.py"
            "::test_the_excerpt_of_the_page_is_python_and_its_names_are_there",
        ),
    },
    "docs/sdk-mcp.md": {
        "python": (
            2,
            "tests/adapters/bridges/mcp/test_server_page.py"
            "::test_the_programs_of_the_page_print_what_it_says",
        ),
        "text": (
            1,
            "tests/adapters/bridges/mcp/test_server_page.py"
            "::test_the_programs_of_the_page_print_what_it_says",
        ),
    },
    "docs/sdk-mcp1.md": {
        "py": (1, f"{_EXCERPTS}::test_the_line_for_servers_of_mcp_1_is_in_the_example"),
        "python": (
            1,
            "tests/adapters/bridges/mcp1/test_server_bridge.py::test_the_page_shows_what_happens",
        ),
        "text": (
            1,
            "tests/adapters/bridges/mcp1/test_server_bridge.py::test_the_page_shows_what_happens",
        ),
    },
    "docs/server.md": {
        "text": (1, f"{_COMMANDS}::test_servers_say_what_the_page_shows"),
        "toml": (
            1,
            "tests/adapters/transports/test_settings.py"
            "::test_the_page_shows_every_key_with_its_default",
        ),
    },
    "docs/stores.md": {
        "text": (
            1,
            "tests/adapters/stores/test_postgresql.py::test_the_document_shows_the_plans",
        ),
    },
    "docs/testing.md": {"sh": (2, f"{_COMMANDS}::test_programs_of_the_tests_know_their_options")},
    "docs/telemetry.md": {
        "py": (
            1,
            "tests/adapters/telemetry/test_page.py::test_the_program_of_the_page_runs",
        ),
        "text": (
            1,
            "tests/adapters/telemetry/test_page.py::test_the_tree_of_the_page_is_what_is_emitted",
        ),
    },
    "docs/tutorial.md": {
        "sh": (10, _TUTORIAL),
        "python": (2, _TUTORIAL),
        "text": (8, _TUTORIAL),
    },
    "docs/workers.md": {
        "shell": (1, "tests/adapters/cli/test_worker.py::commands_of_the_page"),
        "py": (1, f"{_EXCERPTS}::test_an_engine_is_one_argument"),
    },
}
"""Page and language: how many blocks, and the test that runs or compares them.

The language is what follows the fence; nothing does where it is ''.
"""


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_test(page: str) -> None:
    found = Counter(block.language for block in blocks_of(page) if block.language != "console")
    claimed = {language: count for language, (count, _) in CLAIMS.get(page, {}).items()}
    assert found == claimed, "docs/testing.md says what to do"


def test_no_page_is_claimed_that_is_not_there() -> None:
    assert set(CLAIMS) <= set(PAGES)


@pytest.mark.parametrize(
    ("page", "test"),
    sorted({(page, test) for page, claims in CLAIMS.items() for _, test in claims.values()}),
)
def test_every_test_that_is_named_reads_the_page(page: str, test: str) -> None:
    path, _, name = test.partition("::")
    source = (REPOSITORY / path).read_text()
    assert f"\ndef {name}(" in source, f"there is no {test}"
    if test != _GENERATED:  # by tests/update_docs.py
        assert re.search(rf"\b{re.escape(page.rpartition('/')[2])}\b|\bPAGES\b|\bREADME\b", source)


def test_pictures_are_made_by_scripts() -> None:
    scripts = [*(REPOSITORY / "tests").rglob("*.py")]
    sources = "".join(script.read_text() for script in scripts)
    pictures = [p for kind in ("svg", "png") for p in (REPOSITORY / "docs").rglob(f"*.{kind}")]
    for picture in pictures:
        name = re.sub(r"^table-.*", "table-{name}.svg", picture.name)
        assert name in sources, f"no script makes {picture.name}"
