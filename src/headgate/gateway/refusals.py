"""Responses of the gateway itself, as HTTP/1.1 messages and as events: refusals, and pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

from headgate.requests.refusal import Refusal

_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus
}

ALLOWED: Final = b"GET, HEAD, OPTIONS, POST"
"""All methods of the gateway; each path supports some of them."""


_ANTHROPIC_PATH: Final = b"/v1/messages"
_RESPONSES_PATH: Final = b"/v1/responses"


def body(refusal: Refusal, target: bytes) -> bytes:
    """The body of the response for a refusal, in the format of the target's API."""
    return refusal.body_at(target)


def error_event(refusal: Refusal, target: bytes) -> bytes:
    """The server-sent event that ends a broken stream, in the format of the target's API."""
    if target.startswith(_ANTHROPIC_PATH):
        return b"event: error\ndata: %b\n\n" % refusal.body(anthropic=True)
    if target.startswith(_RESPONSES_PATH):
        error = {"type": "error", "code": refusal.code, "message": refusal.message, "param": None}
        return b"event: error\ndata: %b\n\n" % msgspec.json.encode(error)
    return b"data: %b\n\n" % refusal.body(anthropic=False)


def event(body: bytes, target: bytes, *, is_error: bool) -> bytes:
    """A server-sent event with a JSON text on one line, in the format of the target's API."""
    named = is_error and target.startswith((_ANTHROPIC_PATH, _RESPONSES_PATH))
    return b"%bdata: %b\n\n" % (b"event: error\n" if named else b"", body)


def status_line(status: int) -> bytes:
    """The first line of a response, including its line end."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def response(
    status: int,
    body: bytes,
    *,
    content_type: bytes = b"application/json",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    keep_alive: bool = True,
    lines: bytes = b"",
) -> bytes:
    """A whole HTTP/1.1 response; `lines` are further headers, each with its CRLF."""
    lines += b"".join([b"%b: %b\r\n" % header for header in headers])
    return head(status, len(body), content_type=content_type, keep_alive=keep_alive, lines=lines) + body


def head(
    status: int,
    length: int,
    *,
    content_type: bytes = b"application/json",
    keep_alive: bool = True,
    lines: bytes = b"",
) -> bytes:
    """The head of a response whose body has this length; `lines` as for `response`. An empty body, and one
    that is not sent, need no content type: some clients would parse it."""
    close = b"" if keep_alive else b"connection: close\r\n"
    kind = b"content-type: %b\r\n" % content_type if length and content_type else b""
    framing = b"content-length: %d\r\n\r\n" % length
    return b"".join((status_line(status), lines, close, kind, framing))


def no_content(lines: bytes, *, keep_alive: bool) -> bytes:
    """A response with only header lines."""
    close = b"" if keep_alive else b"connection: close\r\n"
    return b"".join((status_line(HTTPStatus.NO_CONTENT), lines, close, b"\r\n"))


def refused(
    refusal: Refusal, target: bytes, *, keep_alive: bool, request_id: bytes = b"", lines: bytes = b""
) -> bytes:
    """The response for a refusal, in the format of the target's API."""
    headers: list[tuple[bytes, bytes]] = []
    if request_id:
        headers.append((b"x-request-id", request_id))
    if refusal.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after_s))
    lines += refusal.lines
    content = body(refusal, target)
    return response(refusal.status, content, headers=tuple(headers), keep_alive=keep_alive, lines=lines)
