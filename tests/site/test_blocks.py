"""Every block of every page is executed or compared by a test, and this is the list of them.

For a new block add its test here: docs/explanation/testing.md says how.  `console` needs none: such
commands are run for every page by tests/test_docs.py.
"""

import re
from collections import Counter
from typing import Final

import pytest

from tests.oracle import REPOSITORY
from tests.site.pages import PAGES, blocks_of

_EXAMPLES: Final = (
    "tests/test_docs.py::test_page_example_run_in_process_prints_the_documented_output"
)
_GENERATED: Final = "tests/test_docs.py::test_generated_documents_are_up_to_date"
_TUTORIAL: Final = "tests/site/test_tutorial.py::test_the_tutorial_leads_to_a_durable_server"
_OPERATIONS: Final = "tests/adapters/engines/test_operations.py"
_COMMANDS: Final = "tests/site/test_commands.py"
_EXCERPTS: Final = "tests/site/test_excerpts.py"
_README: Final = "tests/site/test_readme.py"
_BRIDGES: Final = "tests/adapters/bridges"
_OPTIONS: Final = f"{_COMMANDS}::test_programs_of_the_tests_know_their_options"
_AUTHENTICATION: Final = (
    "tests/adapters/transports/test_authentication.py"
    "::test_the_settings_that_the_page_shows_are_accepted"
)
_SDK: Final = f"{_BRIDGES}/mcp/test_server_page.py::test_page_programs_print_the_documented_output"
_SDK_CLIENT: Final = f"{_BRIDGES}/mcp/test_client_docs.py"
_FASTMCP: Final = f"{_BRIDGES}/test_fastmcp_example.py::test_the_page_is_executed"
_MCP1: Final = (
    f"{_BRIDGES}/mcp1/test_server_bridge.py::test_server_page_example_prints_the_documented_output"
)
_MCP1_CLIENT: Final = (
    f"{_BRIDGES}/mcp1/test_client.py::test_documentation_example_prints_the_documented_output"
)
_LIFESPAN: Final = (
    "tests/adapters/runtime/test_lifespan.py::test_the_program_of_the_page_prints_its_output"
)
_RECEIVER: Final = (
    "tests/adapters/client/test_receiving_example.py"
    "::test_documentation_example_prints_the_documented_output"
)

CLAIMS: Final[dict[str, dict[str, list[str]]]] = {
    "CONTRIBUTING.md": {"sh": [f"{_README}::test_pages_show_the_same_test_command"]},
    "README.md": {
        "sh": [f"{_README}::test_every_command_of_the_readme"] * 4,
        "python": [f"{_README}::test_every_program_of_the_readme"] * 2,
        "text": [f"{_README}::test_every_program_of_the_readme"],
    },
    "docs/explanation/findings.md": {
        "sh": [f"{_EXCERPTS}::test_findings_are_of_the_versions_that_are_pinned"],
        "": [f"{_EXCERPTS}::test_findings_are_transcripts_of_known_requirements"] * 16,
    },
    "docs/explanation/generations.md": {"text": [_GENERATED] * 10},
    "docs/explanation/performance.md": {
        "text": [_GENERATED],
        "sh": [
            "tests/adapters/cli/bench/test_command.py::test_commands_of_the_page_are_understood"
        ],
    },
    "docs/explanation/testing.md": {
        "sh": [f"{_README}::test_pages_show_the_same_test_command", *[_OPTIONS] * 4]
    },
    "docs/howto/adapters.md": {
        "toml": ["tests/test_examples.py::test_the_store_is_found_by_the_entry_point_of_the_guide"],
        "python": [_EXAMPLES],
        "text": [_EXAMPLES],
    },
    "docs/howto/authentication.md": {
        "toml": [_AUTHENTICATION] * 4,
        "python": [
            "tests/adapters/transports/test_http_callers.py::test_the_tool_of_the_page_checks_a_scope"
        ],
    },
    "docs/howto/check.md": {
        "shell": ["tests/conformance/test_command.py::test_the_commands_of_the_page_are_understood"]
        * 3,
        "toml": [f"{_EXCERPTS}::test_the_profile_is_understood"],
        "yaml": [f"{_EXCERPTS}::test_the_steps_of_continuous_integration_are_understood"],
    },
    "docs/howto/client.md": {
        "python": [
            _EXAMPLES,
            f"{_SDK_CLIENT}::test_page_example_prints_the_documented_output",
            _RECEIVER,
        ],
        "text": [
            _EXAMPLES,
            f"{_SDK_CLIENT}::test_page_example_prints_the_documented_output",
            _RECEIVER,
        ],
        "py": [f"{_SDK_CLIENT}::test_the_excerpt_of_the_page_is_python_and_its_names_are_there"],
        "": [f"{_COMMANDS}::test_page_lists_every_option_of_the_call_command"],
        "sh": [f"{_COMMANDS}::test_calls_of_the_page_are_answered"],
    },
    "docs/howto/fastmcp.md": {
        "sh": [f"{_COMMANDS}::test_extras_that_pages_name_are_there"],
        "python": [_FASTMCP],
        "text": [_FASTMCP],
    },
    "docs/howto/mcp-sdk.md": {"python": [_SDK] * 2, "text": [_SDK]},
    "docs/howto/mcp1.md": {
        "py": [
            f"{_EXCERPTS}::test_the_line_for_servers_of_mcp_1_is_in_the_example",
            _MCP1_CLIENT,
        ],
        "python": [_MCP1],
        "text": [_MCP1, _MCP1_CLIENT],
    },
    "docs/howto/operations.md": {
        "text": ["tests/adapters/cli/test_cluster.py::documented"],
        "toml": [f"{_OPERATIONS}::test_the_settings_are_understood"],
        "sh": [f"{_OPERATIONS}::test_every_block_of_the_page_is_run"] * 5,
        "sql": [f"{_OPERATIONS}::test_every_block_of_the_page_is_run"],
        "shell": ["tests/adapters/cli/test_worker.py::commands_of_the_page"],
        "py": [f"{_EXCERPTS}::test_an_engine_is_one_argument"],
    },
    "docs/howto/protocol.md": {"python": [_EXAMPLES], "text": [_EXAMPLES]},
    "docs/howto/server.md": {
        "py": [f"{_COMMANDS}::test_server_start_lines_match_the_page"],
        "text": [f"{_COMMANDS}::test_server_start_lines_match_the_page", _EXAMPLES],
        "toml": [f"{_EXCERPTS}::test_the_proxy_suits_the_server"],
        "nginx": [f"{_EXCERPTS}::test_the_proxy_suits_the_server"],
        "python": [_EXAMPLES],
    },
    "docs/howto/stores.md": {
        "text": ["tests/adapters/stores/test_postgresql.py::test_the_document_shows_the_plans"]
    },
    "docs/howto/testing.md": {
        "python": ["tests/adapters/testing/test_server.py::test_the_test_of_the_page_passes"]
    },
    "docs/howto/tools.md": {
        "python": [f"{_README}::test_pages_show_the_same_tool", _LIFESPAN, _EXAMPLES],
        "py": [
            f"{_EXCERPTS}::test_the_arguments_and_results_of_tools",
            f"{_EXCERPTS}::test_the_arguments_and_results_of_tools",
            f"{_EXCERPTS}::test_a_tool_that_asks_in_many_ways",
            f"{_EXCERPTS}::test_a_tool_that_asks_first",
            f"{_EXCERPTS}::test_a_tool_that_is_retried",
            f"{_EXCERPTS}::test_a_tool_that_records_steps",
            f"{_EXCERPTS}::test_a_tool_that_sleeps",
            f"{_EXCERPTS}::test_a_tool_in_two_versions",
        ],
        "text": [_LIFESPAN, _EXAMPLES],
    },
    "docs/howto/watch.md": {
        "shell": ["tests/adapters/console/test_mounted.py::test_the_printed_link_logs_in"],
        "python": [_EXAMPLES],
        "py": ["tests/adapters/telemetry/test_page.py::test_the_program_of_the_page_runs"],
        "text": [
            _EXAMPLES,
            "tests/adapters/telemetry/test_page.py::test_span_tree_of_the_page_matches_the_emitted_spans",
        ],
    },
    "docs/reference/cli.md": {
        "text": [
            "tests/adapters/cli/test_operators.py::test_operator_commands_print_the_output_of_the_page"
        ]
        * 8
    },
    "docs/reference/http.md": {
        "js": [f"{_EXCERPTS}::test_page_script_subscribes_to_the_served_path_and_event"],
        "json": [
            "tests/adapters/transports/test_openapi.py::test_the_page_for_people_says_the_same"
        ],
    },
    "docs/reference/settings.md": {
        "toml": [
            "tests/adapters/transports/test_settings.py"
            "::test_the_page_shows_every_key_with_its_default"
        ]
    },
    "docs/tutorial/first-server.md": {
        "sh": [_TUTORIAL] * 11,
        "python": [_TUTORIAL] * 3,
        "text": [_TUTORIAL] * 9,
    },
}
"""The test that runs or compares each block, by page and language, in the order of the page.

The language is the text behind the fence, or ''.
"""


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_test(page: str) -> None:
    found = Counter(block.language for block in blocks_of(page) if block.language != "console")
    claimed = {language: len(tests) for language, tests in CLAIMS.get(page, {}).items()}
    assert found == claimed, "docs/explanation/testing.md says what to do"


def test_every_page_of_the_list_exists() -> None:
    assert set(CLAIMS) <= set(PAGES)


@pytest.mark.parametrize(
    ("page", "test"),
    sorted(
        {
            (page, test)
            for page, claims in CLAIMS.items()
            for tests in claims.values()
            for test in tests
        }
    ),
)
def test_every_test_that_is_named_reads_the_page(page: str, test: str) -> None:
    path, _, name = test.partition("::")
    source = (REPOSITORY / path).read_text()
    assert f"def {name}(" in source, f"there is no {test}"
    if test != _GENERATED:  # read by tests/update_docs.py
        assert re.search(rf"\b{re.escape(page.rpartition('/')[2])}\b|\bPAGES\b|\bREADME\b", source)


def test_pictures_are_made_by_scripts() -> None:
    scripts = [*(REPOSITORY / "tests").rglob("*.py")]
    sources = "".join(script.read_text() for script in scripts)
    pictures = [p for kind in ("svg", "png") for p in (REPOSITORY / "docs").rglob(f"*.{kind}")]
    for picture in pictures:
        name = re.sub(r"^table-.*", "table-{name}.svg", picture.name)
        assert name in sources, f"no script makes {picture.name}"
