"""A client's request as parsed by the listener, and the head that is sent to the endpoint for it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from headgate.dataplane.objective_headers import OBJECTIVES_MS, positive
from headgate.dataplane.records import log_text
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.client import Header

if TYPE_CHECKING:
    from headgate.auth.outcome import Identity
    from headgate.auth.tenant import Grant
    from headgate.dataplane.trust import Peer
    from headgate.telemetry.tracing import Trace

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Hop-by-hop headers (RFC 9110, 7.6.1), which are never forwarded."""

FRAMING_WITH_UNDERSCORES: Final = frozenset({b"content_length", b"transfer_encoding"})
"""Some servers treat underscores as hyphens, and would read the body differently."""
_NOT_FORWARDED: Final = (
    HOP_BY_HOP
    | FRAMING_WITH_UNDERSCORES
    | {
        b"accept-encoding",
        b"accept_encoding",
        b"content-length",
        b"content-encoding",
        b"content_encoding",
        b"expect",
        b"forwarded",
        b"host",
        b"traceparent",
        b"tracestate",
        b"x-headgate-explain",
        *OBJECTIVES_MS,
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-request-id",
    }
)
"""Read, rewritten, or not forwarded; also with underscores, which some servers treat as hyphens."""
_TELL_CLIENT: Final = (b"x-forwarded-for", b"forwarded")
_NEEDED: Final = {b"host", b"content-length", b"transfer-encoding", b"content-encoding"}
"""Headers that `connection` cannot remove."""
_NONE: Final[frozenset[bytes]] = frozenset()
RESERVED: Final = (b"x-gateway-", b"x-headgate-")
"""Prefixes of headers between gateways; from outside they have no meaning."""
_FROM_TRUSTED: Final = (*RESERVED, b"x-forwarded-", b"x-real-ip", b"x-amzn-sagemaker-")
"""Prefixes of headers that only a trusted client may send. Engines use those with the last prefix to choose
another model for `/invocations` than the body names, and to open and close sessions."""
LETTER_X: Final = 120
"""No reserved name begins with another letter, so one comparison is enough for most names."""
_HARMLESS: Final = frozenset(
    b"x-stainless-" + ending
    for ending in (
        *(b"arch", b"async", b"lang", b"os", b"package-version", b"read-timeout", b"retry-count", b"runtime"),
        *(b"runtime-version", b"timeout", b"helper-method"),
    )
)
"""Sent by OpenAI's and Anthropic's SDKs with every request: names that one lookup clears."""

_JOINED_BYTES: Final = 16 * 1024
"""A body up to this size is copied after its head once. A longer one is copied for each attempt, so that two
copies are not kept while the endpoint works."""

_TRACEPARENT: Final = re.compile(rb"\ntraceparent: [^\r\n]*\r(?=\n)")
_TRACE: Final = re.compile(rb"\ntrace(?:parent|state): [^\r\n]*\r(?=\n)")


class ParsedHead:
    """The head of a request after all checks, shared by all requests of a connection with the same bytes.

    `headers` are in order, with lower-case names. `host` is sent to the endpoint, and `response_lines` are
    header lines for every response.
    """

    __slots__ = (
        "content_coding",
        "forwarded",
        "given_id",
        "has_trace",
        "headers",
        "identity",
        "is_http_1_0",
        "line",
        "method",
        "objective_s",
        "path",
        "peer",
        "response_lines",
        "target",
        "tells_client",
        "traceparent",
        "wants_decision",
    )

    def __init__(
        self,
        method: bytes,
        target: bytes,
        headers: list[Header],
        is_http_1_0: bool,
        peer: Peer,
        host: bytes,
        response_lines: bytes = b"",
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.is_http_1_0 = is_http_1_0
        self.peer = peer
        self.response_lines = response_lines
        self.identity: Identity | None = None
        """The client, if it had to authenticate."""
        self.tells_client = False
        """Whether a header names a client behind the connection."""
        self.given_id = b""
        """The client's own id in `x-request-id`; empty without one."""
        self.content_coding = b""
        """The coding of the body, such as gzip; empty for identity."""
        self.traceparent = b""
        """The trace of the request, as received; empty without one."""
        self.has_trace = False
        """Whether `forwarded` has headers of a trace, valid or not."""
        self.wants_decision = False
        """Whether a trusted client asks for `x-headgate-decision`."""
        self.objective_s = math.inf
        """The time in which the client wants its first token."""
        path = target.decode("latin-1")
        self.path = path.partition("?")[0] if "?" in path else path
        version = "0" if is_http_1_0 else "1"
        self.line = f"{method.decode('latin-1')} {log_text.escaped(self.path)} HTTP/1.{version}"
        """For logs: without the query, which may contain secrets."""
        lines = [method, b" ", target, peer.opening(host, headers)]
        self._pick_forwarded(headers, lines)
        self.forwarded = b"".join(lines)
        """The head for the endpoint, without the lines that differ between requests with the same head."""

    def _pick_forwarded(self, headers: list[Header], lines: list[bytes]) -> None:
        """Add the forwarded headers to `lines`; the only pass over the headers."""
        is_trusted = self.peer.is_trusted
        for name, value in headers:
            if name in _NOT_FORWARDED:
                if name == b"accept-encoding":
                    # The gateway reads the counts in a response, and may change its events and names.
                    lines.append(b"accept-encoding: identity\r\n")
                elif name == b"x-request-id":
                    self.given_id = self.given_id or value
                elif name in _TELL_CLIENT:
                    self.tells_client = True
                elif name == b"traceparent":
                    self.traceparent = value
                    self.has_trace = True
                    lines += (name, b": ", value, b"\r\n")
                elif name == b"tracestate":
                    self.has_trace = True
                    lines += (name, b": ", value, b"\r\n")
                elif name == b"content-encoding":
                    if value.strip().lower() not in (b"", b"identity"):
                        self.content_coding = value
                elif name == b"x-headgate-explain":
                    self.wants_decision = value == b"1" and self.peer.trusts_client(self.headers)
                elif name in OBJECTIVES_MS:
                    self.objective_s = min(self.objective_s, positive(value) / 1e3)
                    lines += (name, b": ", value, b"\r\n")
                elif name == b"connection" and (dropped := nominated(headers)):
                    del lines[4:]
                    kept = [header for header in headers if header[0] not in dropped | {b"connection"}]
                    return self._pick_forwarded(kept, lines)
            elif (
                name[0] != LETTER_X
                or name in _HARMLESS
                or is_trusted
                or not name.replace(b"_", b"-").startswith(_FROM_TRUSTED)
            ):
                lines += (name, b": ", value, b"\r\n")
        return None


class Request:
    """One request, with its complete body.

    `length` replaces the value of `content-length` in the headers of `parsed`; empty if that is right.
    """

    __slots__ = (
        "_forwarded",
        "_length",
        "_untraced",
        "arrived_at",
        "body",
        "held_bytes",
        "keep_alive",
        "more_bytes",
        "parsed",
        "path",
        "response_lines",
        "trace",
        "traceparent",
        "unsampled",
    )

    def __init__(
        self,
        parsed: ParsedHead,
        body: bytes | bytearray,
        keep_alive: bool,
        arrived_at: float,
        length: bytes = b"",
    ) -> None:
        self.parsed = parsed
        self.path = parsed.path
        self.body = body
        self.held_bytes = len(body)
        """Bytes counted for it in the memory of bodies; 0 once released."""
        self.more_bytes = 0
        """Of a body that is sent as it comes: those that follow its beginning."""
        self.keep_alive = keep_alive
        self.arrived_at = arrived_at
        self.response_lines = parsed.response_lines
        """Header lines for the response."""
        self.traceparent = parsed.traceparent
        self.trace: Trace | None = None
        """Its place in a trace; None before it is first sent, and without tracing."""
        self.unsampled = b""
        """The ids of a new trace that is not sampled, in hexadecimal: 16 digits of its span, and 32 of its
        own; empty without one."""
        self._forwarded = parsed.forwarded
        self._untraced = b""
        """The same without the headers that `send_trace` replaces; empty until then."""
        self._length = length

    @property
    def method(self) -> bytes:
        return self.parsed.method

    @property
    def target(self) -> bytes:
        return self.parsed.target

    @property
    def line(self) -> str:
        """For logs: without the query, which may contain secrets."""
        return self.parsed.line

    @property
    def is_http_1_0(self) -> bool:
        return self.parsed.is_http_1_0

    @property
    def given_id(self) -> bytes:
        """The client's own id in `x-request-id`; empty without one."""
        return self.parsed.given_id

    @property
    def content_coding(self) -> bytes:
        """The coding of the body, such as gzip; empty for identity."""
        return self.parsed.content_coding

    @property
    def wants_decision(self) -> bool:
        """Whether a trusted client asks for `x-headgate-decision`."""
        return self.parsed.wants_decision

    @property
    def objective_s(self) -> float:
        """The time in which the client wants its first token; infinite without one."""
        return self.parsed.objective_s

    @property
    def headers(self) -> list[Header]:
        """In their order, with lower-case names."""
        if not self._length:
            return self.parsed.headers
        return [
            (name, self._length if name == b"content-length" else value)
            for name, value in self.parsed.headers
        ]

    @property
    def is_from_trusted(self) -> bool:
        """Whether the connection's peer may speak for other clients."""
        return self.parsed.peer.is_trusted

    @property
    def tenant(self) -> Grant | None:
        """What its client may do; None if clients need no credentials."""
        identity = self.parsed.identity
        return identity.grant if identity is not None else None

    @property
    def client_address(self) -> str:
        """The client's address, as far as trusted proxies report it; "" if unknown."""
        peer = self.parsed.peer
        return peer.client_address(self.headers) if self.parsed.tells_client else peer.address

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name; "" if it is missing."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return ""

    def begin_trace(self, traceparent: bytes) -> None:
        """Move the request into another trace; its earlier trace headers are removed."""
        self.send_trace(traceparent, is_new=True)
        self.traceparent = traceparent

    def send_trace(self, traceparent: bytes, *, is_new: bool) -> None:
        """Send this header to endpoints from now on, instead of the client's. A new trace has no `tracestate`
        either."""
        if not self._untraced:
            head = self._forwarded
            if self.parsed.has_trace:
                head = (_TRACE if is_new else _TRACEPARENT).sub(b"", head)
            self._untraced = head
        self._forwarded = b"%btraceparent: %b\r\n" % (self._untraced, traceparent)

    def send_unsampled(self, ids: bytes) -> None:
        """Tell endpoints that the request is not sampled. Called for almost every request."""
        self.unsampled = ids
        head = self._forwarded
        if self.parsed.has_trace:
            head = _TRACE.sub(b"", head)
        self._forwarded = b"%btraceparent: 00-%b-%b-00\r\n" % (head, ids[16:], ids[:16])

    def message(self, body: bytes, request_id: bytes) -> bytes:
        """The message for the endpoint: the head with the forwarded headers, and the body."""
        length = b"\r\ncontent-length: %d\r\n\r\n" % (len(body) + self.more_bytes)
        return b"".join((self._forwarded, b"x-request-id: ", request_id, length, body))

    def parts(
        self, body: bytes | Pieces, request_id: bytes, prefix: str = ""
    ) -> tuple[bytes, bytes | Pieces]:
        """The message in two parts, the second of which is empty if the body is not long. `prefix` precedes
        the path."""
        if prefix:
            head, method = self.head(len(body), request_id), self.parsed.method
            return b"%b %b%b" % (method, prefix.encode(), head[len(method) + 1 :]), body
        if len(body) <= _JOINED_BYTES and isinstance(body, bytes):
            return self.message(body, request_id), b""
        return self.head(len(body), request_id), body

    def head(self, length: int, request_id: bytes) -> bytes:
        """The head of the message, for a body of this length that follows."""
        ends = b"\r\ncontent-length: %d\r\n\r\n" % (length + self.more_bytes)
        return b"".join((self._forwarded, b"x-request-id: ", request_id, ends))


def nominated(headers: list[Header]) -> frozenset[bytes]:
    """The hop-by-hop headers named by `connection`; almost always none."""
    named = _NONE
    for name, value in headers:
        if name == b"connection" and value not in (b"keep-alive", b"close", b"Keep-Alive"):
            named = named.union(token.strip().lower() for token in value.split(b",")) - _NEEDED
    return named
