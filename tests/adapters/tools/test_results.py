"""Results: data that annotations declare, content, and what cannot be a result."""

import base64
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import jsonschema_rs
import mcp_types
import pytest
from pydantic import BaseModel, Field

from taskmachine import Audio, File, Image, ResourceLink
from taskmachine.adapters.tools.content import MAX_FILE
from taskmachine.adapters.tools.registry import outcome_of
from taskmachine.tools import ToolResult
from tests.adapters.tools.reading import returning, signature, wrong

UNTYPED: Any = lambda value: value  # noqa: E731  what a caller without a type checker passes
PNG = b"\x89PNG"
BASE64 = base64.b64encode(PNG).decode()
IMAGE = {"type": "image", "data": BASE64, "mimeType": "image/png"}


@attrs.frozen
class Size:
    width: int
    _unit: str = "mm"


class Shape(BaseModel):
    sides: int = Field(alias="numberOfSides", ge=0)


class Square(Shape):
    width: float


class Pair(NamedTuple):
    left: Size
    right: int


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words} for words in texts]


def write(value: Any, hint: Any = Any) -> Any:
    return signature(returning(hint)).write(value)


# --- declared data ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value", "structured"),
    [
        (Size, Size(1), {"width": 1, "unit": "mm"}),
        (Size, {"width": "2"}, {"width": 2, "unit": "mm"}),
        (list[Size], [Size(1)], {"result": [{"width": 1, "unit": "mm"}]}),
        (Pair, Pair(Size(1), 2), {"result": [{"width": 1, "unit": "mm"}, 2]}),
        (Shape, Shape(numberOfSides=3), {"numberOfSides": 3}),
        (Shape, {"sides": 3}, {"numberOfSides": 3}),
        (Shape, Square(numberOfSides=4, width=1), {"numberOfSides": 4, "width": 1.0}),
        (Size | None, None, {"result": None}),
        (int, 10**30, {"result": 10**30}),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC), {"result": "2026-01-02T00:00:00Z"}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[str, Any], {"type": "text", "text": "a"}, {"type": "text", "text": "a"}),
    ],
)
def test_declared_data_is_structured_and_fits_the_schema(
    hint: Any, value: Any, structured: Any
) -> None:
    found = signature(returning(hint))
    result = found.write(value)
    assert result["structuredContent"] == structured
    assert found.output_schema is not None
    assert found.output_schema["type"] == "object"
    jsonschema_rs.meta.validate(found.output_schema)
    assert jsonschema_rs.is_valid(found.output_schema, structured)
    data = structured.get("result", structured)
    texts = [block["text"] for block in result["content"]]
    if data is None or isinstance(data, str):
        assert texts == ([] if data is None else [data])
    else:
        assert [json.loads(words) for words in texts] == [data]


def test_text_is_shown_as_it_is() -> None:
    assert write("a", str) == {"content": text("a"), "structuredContent": {"result": "a"}}


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (Size, "a", "result must be a valid dictionary"),
        (Size, {"width": "a"}, "result.width must be a valid integer"),
        (Size, Size("a"), "result cannot be JSON: Pydantic serializer warnings: "),  # type: ignore[arg-type]
        (Size, None, "result must be a valid dictionary"),
        (Shape, {"sides": -1}, "result.sides must be greater than or equal to 0"),
        (str, 5, "result must be a valid string"),
        (str, Image(data=PNG), "result must be a valid string"),
        (list[int], ["a"], "result[0] must be a valid integer"),
        (float, float("nan"), "the result has a number that is not finite: nan"),
        (list[float], [1.0, float("inf")], "the result has a number that is not finite: inf"),
        (Shape, ToolResult(), "structured must be a valid dictionary"),
        (int, ToolResult([], {"a": 1}), "structured.result is missing"),
        (int, ToolResult([], {"result": "a"}), "structured must be a valid integer"),
    ],
)  # fmt: skip
def test_data_that_does_not_fit_is_refused(hint: Any, value: Any, words: str) -> None:
    assert wrong(signature(returning(hint)).write, value).startswith(words)


def test_an_error_needs_no_structure() -> None:
    assert write(ToolResult(["no"], is_error=True), Shape) == {
        "content": text("no"),
        "isError": True,
    }


@pytest.mark.parametrize(
    "hint",
    [None, Any, object, bytes, list, tuple, list[Any], Image, Image | None, list[str | Image],
     tuple[list[Image], dict[str, int]], Annotated[Audio, "a"], ToolResult, File, ResourceLink,
     mcp_types.TextContent, list[mcp_types.ContentBlock], mcp_types.CallToolResult],
    ids=str,
)  # fmt: skip
def test_content_and_anything_declare_nothing(hint: Any) -> None:
    assert signature(returning(hint)).output_schema is None


# --- undeclared values -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, {"content": []}),
        ("a", {"content": text("a")}),
        (2.5, {"content": text("2.5")}),
        ([1, "a"], {"content": text('[1,"a"]')}),
        ([], {"content": text("[]")}),
        (b"abc", {"content": text("abc")}),
        (b"\xff", {"content": text("/w==")}),
        ({"a": Size(1)}, {"content": text('{"a":{"width":1,"unit":"mm"}}'),
                          "structuredContent": {"a": {"width": 1, "unit": "mm"}}}),
        (Size(1), {"content": text('{"width":1,"unit":"mm"}'),
                   "structuredContent": {"width": 1, "unit": "mm"}}),
        (Image(data=PNG), {"content": [IMAGE]}),
        (IMAGE, {"content": [IMAGE]}),
        (["a", Image(data=PNG), {"b": 1}], {"content": [*text("a"), IMAGE, *text('{"b":1}')]}),
        (("a", {"b": 1}), {"content": text("a"), "structuredContent": {"b": 1}}),
        (([Image(data=PNG)], {"b": 1}), {"content": [IMAGE], "structuredContent": {"b": 1}}),
        ((1, {"b": 1}), {"content": text('[1,{"b":1}]')}),
        (mcp_types.TextContent(type="text", text="a"), {"content": text("a")}),
        (ToolResult(["a", Image(data=PNG)], {"b": Size(1)}, meta={"c": 1}),
         {"content": [*text("a"), IMAGE], "structuredContent": {"b": {"width": 1, "unit": "mm"}},
          "_meta": {"c": 1}}),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_undeclared_values_are_content(value: Any, result: Any) -> None:
    written = write(value)
    assert written == result
    mcp_types.CallToolResult.model_validate(written)


_NOT_JSON = threading  # a value with the same name in every process
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (_NOT_JSON, "result cannot be JSON: "),
        ({"a": [_NOT_JSON]}, "result cannot be JSON: "),
        (float("nan"), "the result has a number that is not finite: nan"),
        ({"a": [float("-inf")]}, "the result has a number that is not finite: -inf"),
        (CYCLE, "result cannot be JSON: Circular reference"),
        ([Image(data=PNG), _NOT_JSON], "result cannot be JSON: "),
        (ToolResult([_NOT_JSON]), "result cannot be JSON: "),
        ([ToolResult()], "a ToolResult cannot be part of a result"),
        (Image(path="/nowhere/a.png"), "cannot read /nowhere/a.png: No such file or directory"),
        (Image(path="/"), "/ is not a file"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_cannot_be_a_result_is_refused(value: Any, words: str) -> None:
    assert wrong(write, value).startswith(words)


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, 10**5000], ids=["text", "key", "int"])
def test_what_cannot_be_encoded_is_refused(value: Any) -> None:
    assert wrong(lambda value: outcome_of(write(value)), value)


def test_the_depth_of_a_result_is_what_peers_read() -> None:
    deep: Any = {}
    for _ in range(126):
        deep = {"a": deep}
    assert outcome_of({"structuredContent": deep}).result
    said = wrong(outcome_of, {"structuredContent": {"a": deep}})
    assert said == "nested deeper than 128 levels"


# --- content from files ----------------------------------------------------------------------


def block(content: Any) -> Any:
    (found,) = write(content)["content"]
    return found


def test_content_from_a_file(tmp_path: Path) -> None:
    picture, report = tmp_path / "a.PNG", tmp_path / "a b.md"
    picture.write_bytes(PNG)
    report.write_text("# Grüße", "utf-8")
    assert block(Image(picture)) == IMAGE
    assert block(Image(path=str(picture), format="webp"))["mimeType"] == "image/webp"
    assert block(Audio(picture))["mimeType"] == "image/png"
    assert block(File(report)) == {
        "type": "resource",
        "resource": {"uri": "file:///a%20b.md", "mimeType": "text/markdown", "text": "# Grüße"},
    }
    assert block(File(picture, name="plan.png"))["resource"] == {
        "uri": "file:///plan.png",
        "mimeType": "image/png",
        "blob": BASE64,
    }
    assert str(tmp_path) not in json.dumps(block(File(report)))


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (Image(data=b""), "image/png"),
        (Image(data=b"", format="JPG"), "image/jpeg"),
        (Image(data=b"", format="svg"), "image/svg+xml"),
        (Image(data=b"", format="qoi2"), "image/qoi2"),
        (Audio(data=b""), "audio/wav"),
        (Audio(data=b"", format="mp3"), "audio/mpeg"),
        (Audio(data=b"", format="ogg"), "audio/ogg"),
        (Audio(data=b"", format="flac"), "audio/flac"),
    ],
)
def test_mime_types(content: Any, mime_type: str) -> None:
    assert block(content)["mimeType"] == mime_type


def test_embedded_data() -> None:
    def resource(**given: Any) -> Any:
        return block(File(**given))["resource"]

    assert resource(data=b"a,b", format="csv", name="t") == {
        "uri": "file:///t.csv",
        "mimeType": "text/csv",
        "text": "a,b",
    }
    assert resource(data=b"\xff", format="txt")["blob"] == "/w=="
    assert resource(data=b"{}", format="json")["text"] == "{}"
    assert resource(data=b"{}") == {
        "uri": "file:///resource",
        "mimeType": "application/octet-stream",
        "blob": "e30=",
    }


def test_links() -> None:
    assert block(ResourceLink("https://example.org/a/report.pdf?x=1")) == {
        "type": "resource_link",
        "uri": "https://example.org/a/report.pdf?x=1",
        "name": "report.pdf",
        "mimeType": "application/pdf",
    }
    assert block(ResourceLink("https://example.org", title="T", mime_type="text/html")) == {
        "type": "resource_link",
        "uri": "https://example.org",
        "name": "https://example.org",
        "title": "T",
        "mimeType": "text/html",
    }


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Image(), "Image needs either path=... or data=..."),
        (lambda: Audio("a", b"b"), "Audio needs either path=... or data=..."),
        (lambda: Image(UNTYPED(PNG)), "Image: path must be text or a Path; bytes are data=..."),
        (lambda: File(data=UNTYPED("text")), "File: data must be bytes, got str"),
        (lambda: Image(data=PNG, format="image/png"), 'Image: format must be a file extension'),
        (lambda: ResourceLink("report.pdf"), "ResourceLink: 'report.pdf' has no scheme"),
    ],
)  # fmt: skip
def test_content_that_cannot_be(make: Any, words: str) -> None:
    assert wrong(lambda _: make(), None).startswith(words)


def test_a_file_is_read_within_the_limit_of_a_result(tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    large.touch()
    os.truncate(large, 10**12)
    assert wrong(write, Image(large)) == (
        f"{large} has more than {MAX_FILE} bytes; return a ResourceLink to it"
    )
    os.truncate(large, MAX_FILE)
    assert outcome_of(write(Image(large))).result


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert wrong(write, File(pipe)) == f"{pipe} is not a file"
