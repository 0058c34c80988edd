"""JSON-RPC 2.0 as both MCP revisions use it: bytes to messages and back.

Stricter than plain JSON-RPC where MCP is: an id is a string or an integer and never null, params
and results are objects, and there are no batches.  Any input yields a message or
`MalformedMessage`, in time that is linear in its size.
"""

from typing import Any, Final

import attrs

from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "Error",
    "ErrorResponse",
    "Id",
    "Message",
    "Notification",
    "Request",
    "ResultResponse",
    "decode_message",
    "encode_message",
    "json_type",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Id = str | int


@attrs.frozen
class Request:
    """A call that needs a response with the same id."""

    id: Id
    method: str
    params: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Notification:
    """A call without a response."""

    method: str
    params: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ResultResponse:
    """The response to the request of that id, with its result."""

    id: Id
    result: JSONObject


@attrs.frozen
class Error:
    """The error object of a response."""

    code: int
    message: str
    data: Any = None


@attrs.frozen
class ErrorResponse:
    """The response with an error; `id` is None if the request's could not be read."""

    id: Id | None
    error: Error


Message = Request | Notification | ResultResponse | ErrorResponse


def decode_message(data: bytes) -> Message:
    """Return the message, or raise `MalformedMessage` with code and reason for the response."""
    try:
        value = decode_json(data)
    except ValueError as error:
        raise MalformedMessage(PARSE_ERROR, f"Parse error: {error}") from None
    if isinstance(value, list):
        raise _invalid("batches are not part of MCP; send one message at a time")
    if not isinstance(value, dict):
        raise _invalid(f"a message must be an object, got {json_type(value)}")
    id = value.get("id")
    if type(id) not in (str, int):
        if "id" in value and ("method" in value or "result" in value or id is not None):
            raise _invalid(f"id must be a string or an integer, got {json_type(id)}")
        id = None
    if value.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc must be "2.0"', id)
    if ("method" in value) + ("result" in value) + ("error" in value) != 1:
        raise _invalid("a message has exactly one of method, result and error", id)
    if "result" in value:
        return _decode_result(value["result"], id)
    if "error" in value:
        return ErrorResponse(id, _decode_error(value["error"], id))
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        raise _invalid(f"method must be a string, got {json_type(method)}", id)
    if params is None:  # some peers send null instead of omitting params
        params = {}
    if not isinstance(params, dict):
        reason = f"params must be an object, got {json_type(params)}"
        raise MalformedMessage(INVALID_PARAMS, reason, id)
    return Notification(method, params) if id is None else Request(id, method, params)


def _decode_result(result: Any, id: Id | None) -> ResultResponse:
    if id is None:
        raise _invalid("a result needs the id of its request")
    if not isinstance(result, dict):
        raise _invalid(f"result must be an object, got {json_type(result)}", id)
    return ResultResponse(id, result)


def _decode_error(error: Any, id: Id | None) -> Error:
    if not isinstance(error, dict):
        raise _invalid(f"error must be an object, got {json_type(error)}", id)
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, int) or isinstance(code, bool):
        raise _invalid(f"error.code must be an integer, got {json_type(code)}", id)
    if not isinstance(message, str):
        raise _invalid(f"error.message must be a string, got {json_type(message)}", id)
    return Error(code, message, error.get("data"))


def encode_message(message: Message) -> bytes:
    """Return the bytes of one message, without newlines."""
    match message:
        case ResultResponse():  # the most frequent kind first, without patterns: saves 1 us
            return encode_json({"jsonrpc": "2.0", "id": message.id, "result": message.result})
        case Request(id, method, params):
            return encode_json({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        case Notification(method, params):
            return encode_json({"jsonrpc": "2.0", "method": method, "params": params})
        case _:
            return _encode_error(message)


def _encode_error(response: ErrorResponse) -> bytes:
    body: JSONObject = {"code": response.error.code, "message": response.error.message}
    if response.error.data is not None:
        body["data"] = response.error.data
    # In both revisions the id of an error response may be absent but not null.
    id = {} if response.id is None else {"id": response.id}
    return encode_json({"jsonrpc": "2.0", **id, "error": body})


def json_type(value: Any) -> str:
    """Return the JSON name of a decoded value's type."""
    return _JSON_TYPES.get(type(value), type(value).__name__)


_JSON_TYPES: Final = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


def _invalid(reason: str, id: Id | None = None) -> MalformedMessage:
    return MalformedMessage(INVALID_REQUEST, f"Invalid request: {reason}", id)
