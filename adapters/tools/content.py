"""Content for the model: images, audio, files and links that a tool returns.

    return Image(path="chart.png")
    return ["Done.", Image(data=png), ResourceLink("https://example.org/report")]

A file is read when the tool has returned it, and only if it fits into a message.
"""

import base64
import mimetypes
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import attrs

from taskmachine.protocol.jsonvalue import MAX_BYTES, JSONObject

__all__ = [
    "Audio",
    "File",
    "Image",
    "ResourceLink",
    "ToolResult",
    "block_of",
    "is_block",
    "is_content",
]

MAX_FILE: Final = MAX_BYTES // 2
"""Size limit of a file, which fits into a result as base64."""

_BLOCKS: Final = {
    "text": "text",
    "image": "data",
    "audio": "data",
    "resource": "resource",
    "resource_link": "uri",
}
"""The types of content blocks, each with a member that it must have."""

_AUDIO: Final = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
}
"""What `mimetypes` does not know, or only on some systems."""

_SDK: Final = frozenset({"mcp", "mcp_types"})


@attrs.frozen
class Image:
    """An image from a file or from bytes; `format` is its file extension, such as "png"."""

    path: str | Path | None = None
    data: bytes | None = attrs.field(default=None, repr=False)
    format: str | None = None

    def __attrs_post_init__(self) -> None:
        _check(self)


@attrs.frozen
class Audio:
    """A sound from a file or from bytes; `format` is its file extension, such as "wav"."""

    path: str | Path | None = None
    data: bytes | None = attrs.field(default=None, repr=False)
    format: str | None = None

    def __attrs_post_init__(self) -> None:
        _check(self)


@attrs.frozen
class File:
    """A file, or bytes as a file, embedded in the result; text stays text.

    `name` is shown to the client, by default the name of the file without its folder.
    """

    path: str | Path | None = None
    data: bytes | None = attrs.field(default=None, repr=False)
    format: str | None = None
    name: str | None = None

    def __attrs_post_init__(self) -> None:
        _check(self)


@attrs.frozen
class ResourceLink:
    """A link to something that the client may read; `name` is by default the end of the URI."""

    uri: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None

    def __attrs_post_init__(self) -> None:
        if not urlsplit(self.uri).scheme:
            raise ValueError(f"ResourceLink: {self.uri!r:.80} has no scheme, such as https:")


@attrs.frozen
class ToolResult:
    """A result that a tool specifies exactly.

    `content` may hold text, content objects and content blocks as JSON.
    """

    content: list[Any] = attrs.field(factory=list)
    structured: JSONObject | None = None
    is_error: bool = False
    meta: JSONObject | None = None


def _check(content: Image | Audio | File) -> None:
    kind = type(content).__name__
    if (content.path is None) == (content.data is None):
        raise ValueError(f"{kind} needs either path=... or data=...")
    if content.path is not None and not isinstance(content.path, str | Path):
        raise ValueError(f"{kind}: path must be text or a Path; bytes are data=...")
    if content.data is not None and not isinstance(content.data, bytes):
        raise ValueError(f"{kind}: data must be bytes, got {type(content.data).__name__}")
    if content.format is not None and not content.format.isalnum():
        raise ValueError(f'{kind}: format must be a file extension such as "png"')


def is_content(cls: type) -> bool:
    """Return True if a class is content or a result, also one of the official SDK."""
    is_ours = issubclass(cls, Image | Audio | File | ResourceLink | ToolResult)
    return is_ours or (cls.__module__.partition(".")[0] in _SDK and hasattr(cls, "model_dump"))


def is_block(value: Any) -> bool:
    """Return True if a value is content or a content block, which may be JSON."""
    if isinstance(value, Mapping):
        return _BLOCKS.get(str(value.get("type")), "") in value
    return is_content(type(value))


def block_of(content: Any) -> JSONObject:
    """Return the content block of content; ValueError if its file cannot be read."""
    if isinstance(content, Image):
        return {"type": "image", **_encoded(content, _mime_type(content, "image", "image/png"))}
    if isinstance(content, Audio):
        return {"type": "audio", **_encoded(content, _mime_type(content, "audio", "audio/wav"))}
    if isinstance(content, File):
        return {"type": "resource", "resource": _resource(content)}
    if isinstance(content, ResourceLink):
        return _link(content)
    if isinstance(content, Mapping):
        return dict(content)
    if hasattr(content, "model_dump"):
        block: JSONObject = content.model_dump(mode="json", by_alias=True, exclude_none=True)
        return block
    raise ValueError(f"a {type(content).__name__} cannot be part of a result")


def _encoded(content: Image | Audio, mime_type: str) -> JSONObject:
    return {"data": base64.b64encode(_bytes_of(content)).decode(), "mimeType": mime_type}


def _bytes_of(content: Image | Audio | File) -> bytes:
    if content.path is None:
        assert content.data is not None, "checked when it was made"
        return content.data
    path = Path(content.path).expanduser()
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block
            raise ValueError(f"{path} is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE:
        raise ValueError(f"{path} has more than {MAX_FILE} bytes; return a ResourceLink to it")
    return data


def _mime_type(content: Image | Audio | File, kind: str, otherwise: str) -> str:
    if content.format is not None:
        extension = content.format.lower()
    elif content.path is not None:
        extension = Path(content.path).suffix.removeprefix(".").lower()
        otherwise = "application/octet-stream"
    else:
        return otherwise
    guessed = _AUDIO.get(extension) or mimetypes.guess_type(f"x.{extension}", strict=False)[0]
    return guessed or (otherwise if content.format is None else f"{kind}/{extension}")


def _resource(file: File) -> JSONObject:
    data = _bytes_of(file)
    mime_type = _mime_type(file, "application", "application/octet-stream")
    # The folders of the server are not the client's business.
    name = file.name or ("resource" if file.path is None else Path(file.path).name)
    if file.format is not None and "." not in name:
        name += f".{file.format}"
    resource = {"uri": f"file:///{quote(name)}", "mimeType": mime_type}
    if mime_type.startswith("text/") or mime_type == "application/json":
        try:
            return {**resource, "text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {**resource, "blob": base64.b64encode(data).decode()}


def _link(link: ResourceLink) -> JSONObject:
    end = urlsplit(link.uri).path.rstrip("/").rpartition("/")[2]
    optional = {
        "title": link.title,
        "description": link.description,
        "mimeType": link.mime_type or mimetypes.guess_type(end)[0],
    }
    return {
        "type": "resource_link",
        "uri": link.uri,
        "name": link.name or end or link.uri,
        **{name: value for name, value in optional.items() if value is not None},
    }
