"""HTTP of 2025-11-25, done wrong: the endpoint, origins, sessions, versions."""

import json

from tests.conformance.planting import Bug, Head, Instead, Message, plant

HTTP = ("http",)
SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"


# --- the endpoint, and who may come --------------------------------------------------------------


class _AnswersGet(Bug):
    """Answers the first proper GET by itself."""

    instead: Instead

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.is_done = False

    def came(self, body: bytes, head: Head) -> bytes | Instead | None:
        session = head.headers.get(SESSION, "")
        if head.method == "DELETE":
            self.ended.add(session)
        is_proper = not {"origin", "last-event-id"} & head.headers.keys()
        if head.method == "GET" and is_proper and session not in self.ended and not self.is_done:
            self.is_done = True
            return self.instead
        return body


@plant(
    "2025-11-25:http-single-endpoint",
    "2025-11-25:get-stream-sse-or-405",
    transports=HTTP,
)
class GetIsElsewhere(_AnswersGet):
    """The stream is at another URL."""

    instead = Instead(status=404)


@plant("2025-11-25:get-stream-sse-or-405", transports=HTTP)
class GetShowsAPage(_AnswersGet):
    """A page for people."""

    instead = Instead(status=200, headers={"content-type": "text/html"})


@plant("2025-11-25:http-origin-validated", "2025-11-25:http-origin-403", transports=HTTP)
class ComesFromAnywhere(Bug):
    """Does not look at the Origin."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        head.headers.pop("origin", None)
        return message

    def came(self, body: bytes, head: Head) -> bytes | Instead | None:
        head.headers.pop("origin", None)
        return body


@plant("2025-11-25:http-origin-403", transports=HTTP)
class RefusesOriginsWith400(Bug):
    """Says that the request is bad, not that its page is."""

    def answered(self, request: Message | None, head: Head) -> None:
        head.status = 400 if head.status == 403 else head.status


@plant(
    "2025-11-25:http-authentication",
    also=("2025-11-25:tool-access-controlled",),
    transports=HTTP,
)
class ServesWithoutCredentials(Bug):
    """Takes whoever says nothing for the last one who said something."""

    last = ""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        self.last = head.headers.setdefault("authorization", self.last)
        return message


# --- what a POST is told -------------------------------------------------------------------------


@plant("2025-11-25:http-202-for-notification", transports=HTTP)
class AcceptsWith200(Bug):
    """All is well."""

    def answered(self, request: Message | None, head: Head) -> None:
        head.status = 200 if head.status == 202 else head.status


@plant("2025-11-25:http-error-for-refused-notification", transports=HTTP)
class RefusesWith200(Bug):
    """All is well, though it is not."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if "id" in message or isinstance(message.get("method"), str):
            return message
        error = {"code": -32600, "message": "Invalid request"}
        return Instead(({"jsonrpc": "2.0", "error": error},))


@plant("2025-11-25:http-json-or-sse", transports=HTTP)
class SaysItIsText(Bug):
    """JSON, but it does not say so."""

    def answered(self, request: Message | None, head: Head) -> None:
        if request is not None and request.get("method") == "ping" and head.status == 200:
            head.headers["content-type"] = "text/plain"


# --- sessions ------------------------------------------------------------------------------------


class _RenamesSessions(Bug):
    """Sessions have other ids than the server behind it knows."""

    def __init__(self) -> None:
        self.real: dict[str, str] = {}

    def new_id(self, real: str) -> str:
        raise NotImplementedError

    def answered(self, request: Message | None, head: Head) -> None:
        if SESSION in head.headers:
            real = head.headers[SESSION]
            head.headers[SESSION] = self.new_id(real)
            self.real[head.headers[SESSION]] = real

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        self._lead_back(head)
        return message

    def came(self, body: bytes, head: Head) -> bytes | Instead | None:
        self._lead_back(head)
        return body

    def _lead_back(self, head: Head) -> None:
        if head.headers.get(SESSION) in self.real:
            head.headers[SESSION] = self.real[head.headers[SESSION]]


@plant("2025-11-25:session-id-secure", transports=HTTP)
class NumbersSessions(_RenamesSessions):
    """One after the other."""

    def new_id(self, real: str) -> str:
        return f"session-of-a-client-{len(self.real):06}"


@plant("2025-11-25:session-id-visible-ascii", transports=HTTP)
class SessionsWithSpaces(_RenamesSessions):
    """A space within."""

    def new_id(self, real: str) -> str:
        return f"{real[:20]} {real[20:]}"


@plant("2025-11-25:session-id-missing-400", transports=HTTP)
class MissingSessionIsNotFound(Bug):
    """No session is like a session that is gone."""

    def __init__(self) -> None:
        self.missing: list[str] = []

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if SESSION not in head.headers and message.get("method") == "tools/list":
            self.missing.append(json.dumps(message))
        return message

    def answered(self, request: Message | None, head: Head) -> None:
        if head.status == 400 and json.dumps(request) in self.missing:
            head.status = 404


@plant("2025-11-25:session-ended-404", transports=HTTP)
class EndedSessionIsBad(Bug):
    """A session that is gone is a bad request."""

    def answered(self, request: Message | None, head: Head) -> None:
        head.status = 400 if head.status == 404 else head.status


# --- versions ------------------------------------------------------------------------------------


@plant("2025-11-25:protocol-version-assumed", transports=HTTP)
class InsistsOnTheVersion(Bug):
    """Knows the version of the session, and wants to hear it again."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if VERSION not in head.headers and SESSION in head.headers:
            error = {"code": -32600, "message": "No version"}
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
            return Instead((answer,), status=400)
        return message


@plant("2025-11-25:protocol-version-bad-400", transports=HTTP)
class DoesNotReadTheVersion(Bug):
    """Any version will do."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if VERSION in head.headers:
            head.headers[VERSION] = "2025-11-25"
        return message
