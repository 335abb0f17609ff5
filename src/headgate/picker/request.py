"""A client's request as a proxy describes it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from headgate.dataplane import trust
from headgate.dataplane.objective_headers import OBJECTIVES_MS, positive
from headgate.dataplane.queueing.queue_hints import DEFAULT_FLOW, FAIRNESS_IDS
from headgate.dataplane.records import log_text
from headgate.requests import paths

if TYPE_CHECKING:
    from headgate.requests.client import Header
    from headgate.telemetry.tracing import Trace

DEFAULT_PATH: Final = "/v1/completions"
"""Of requests whose proxy sends no path; the path of the reference implementation."""
_PATHS: Final = (b":path", b"x-original-path", b"x-forwarded-path")
GRPC: Final = b"application/grpc"
_EXPLAIN: Final = b"x-headgate-explain"
_RENAME: Final = (b"x-llm-d-model-name-rewrite", b"x-gateway-model-name-rewrite")
_MAX_NAME: Final = 1024


class ProxiedRequest:
    """One request. Its body is complete when decisions are made about it."""

    __slots__ = (
        "_named",
        "_source",
        "arrived_at",
        "body",
        "headers",
        "held_bytes",
        "is_in_new_trace",
        "is_known_api",
        "is_session",
        "path",
        "sent_traceparent",
        "target",
        "trace",
        "unsampled",
    )

    def __init__(self, headers: list[Header], arrived_at: float, source: str = "") -> None:
        """`source`: the address of the client, if the proxy says it besides the headers."""
        named = dict(reversed(headers))
        if not b"".join(named).islower():  # proxies of HTTP/2 send lower-case names
            headers = [(name.lower(), value) for name, value in headers]
            named = dict(reversed(headers))
        self.headers = headers
        self.arrived_at = arrived_at
        self._source = source
        self.body: bytes | bytearray = b""
        self.held_bytes = 0
        self._named = named
        self.trace: Trace | None = None
        """Its place in a trace; None before an endpoint is picked, and without tracing."""
        self.sent_traceparent = b""
        """What the endpoint gets instead of the client's `traceparent`; empty if that stays."""
        self.unsampled = b""
        """The ids of a new trace that is not sampled, in hexadecimal; empty without one."""
        self.is_in_new_trace = False
        """Whether its `tracestate` does not belong to that trace."""
        self.target = next((named[name] for name in _PATHS if named.get(name)), b"")
        """The path with its query, as the client sent it; empty if the proxy sends none."""
        found = _api_path(self.target.partition(b"?")[0].decode("latin-1")) if self.target else DEFAULT_PATH
        self.is_known_api = found is not None
        """Whether the path ends with that of an inference API."""
        self.is_session = found is None and _opens_websocket(self.method, named)
        """Whether it opens a WebSocket, and may name its model in its query."""
        self.path = found or self.target.partition(b"?")[0].decode("latin-1")
        """The path of the API, without what the proxy will remove from it, and without the query."""

    @property
    def method(self) -> bytes:
        return self._named.get(b":method", b"POST")

    @property
    def query(self) -> str:
        """What follows the path; empty without one."""
        return self.target.partition(b"?")[2].decode("latin-1")

    @property
    def line(self) -> str:
        """For logs: without the query, which may contain secrets."""
        full = self.target.partition(b"?")[0].decode("latin-1")
        return f"{self.method.decode('latin-1')} {log_text.escaped(full)}"

    @property
    def is_http_1_0(self) -> bool:
        return False

    @property
    def content_coding(self) -> bytes:
        """The coding of the body, such as gzip; empty for identity."""
        coding = self._named.get(b"content-encoding", b"").strip()
        return b"" if coding.lower() == b"identity" else coding

    @property
    def is_grpc(self) -> bool:
        return self._named.get(b"content-type", b"").startswith(GRPC)

    @property
    def is_from_trusted(self) -> bool:
        """Always: the proxy removes headers that clients must not send."""
        return True

    @property
    def tenant(self) -> None:
        """The proxy authenticates clients."""
        return

    @property
    def client_address(self) -> str:
        """As the proxy says it, or as it has appended it to the headers."""
        if self._source:
            return self._source
        chain = next((value for name, value in reversed(self.headers) if name == b"x-forwarded-for"), b"")
        return chain.rpartition(b",")[2].strip().decode("latin-1")

    def wants_decision(self, told: tuple[str, ...]) -> bool:
        """Whether the client asks for the decision, and is in one of the networks that are `told`. Without an
        address from the proxy, it is in none."""
        return self._named.get(_EXPLAIN) == b"1" and self.client_address in _networks(told)

    @property
    def model_header(self) -> str:
        """The model name that the endpoint is to get; empty for the one in the body, or of the objects."""
        named = self._named
        found = named.get(_RENAME[0]) or named.get(_RENAME[1])
        return found.decode("latin-1")[:_MAX_NAME] if found else ""

    @property
    def fairness_id(self) -> str:
        """The tenant, for metrics."""
        named = self._named
        for name in FAIRNESS_IDS:
            if found := named.get(name):
                return found.decode("latin-1")
        return DEFAULT_FLOW

    @property
    def traceparent(self) -> bytes:
        return self._named.get(b"traceparent", b"")

    def send_trace(self, traceparent: bytes, *, is_new: bool) -> None:
        """Have the proxy send this header, instead of the client's."""
        self.sent_traceparent = traceparent
        self.is_in_new_trace = is_new

    def send_unsampled(self, ids: bytes) -> None:
        """Have the proxy tell the endpoint that the request is not sampled."""
        self.unsampled = ids
        self.send_trace(b"00-%b-%b-00" % (ids[16:], ids[:16]), is_new=True)

    @property
    def given_id(self) -> bytes:
        """The value of `x-request-id`; empty without one."""
        return self._named.get(b"x-request-id", b"")

    @property
    def objective_s(self) -> float:
        """The time in which the client wants its first token; infinite without one."""
        named, found = self._named, math.inf
        for name in OBJECTIVES_MS:
            if name in named:
                found = min(found, positive(named[name]) / 1e3)
        return found

    def has(self, name: bytes) -> bool:
        return name in self._named

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name; "" if it is missing."""
        return self._named.get(name, b"").decode("latin-1")


_networks = lru_cache(maxsize=8)(trust.Networks)


def _opens_websocket(method: bytes, named: dict[bytes, bytes]) -> bool:
    """Over HTTP/1.1, and over HTTP/2 (RFC 8441)."""
    if method == b"GET":
        return named.get(b"upgrade", b"").lower() == b"websocket"
    return method == b"CONNECT" and named.get(b":protocol", b"").lower() == b"websocket"


def _api_path(path: str) -> str | None:
    """The longest end of a path that is the path of an inference API: routes may have a prefix that the proxy
    removes later. None if there is none."""
    if path in paths.DEFAULT:
        return path
    at = path.find("/", 1)
    while at > 0:
        if path[at:] in paths.DEFAULT:
            return path[at:]
        at = path.find("/", at + 1)
    return None
