"""A request that is served over HTTP, as seen by logs, metrics and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headgate.requests.life import Life

if TYPE_CHECKING:
    from headgate.auth.tenant import Grant
    from headgate.telemetry.tracing import Trace


class LoggedRequest(Protocol):
    """The head of a client's request."""

    @property
    def arrived_at(self) -> float: ...
    @property
    def method(self) -> bytes: ...
    @property
    def path(self) -> str: ...
    @property
    def line(self) -> str:
        """The request line, without the query, which may contain secrets."""
        ...

    @property
    def is_http_1_0(self) -> bool: ...
    @property
    def client_address(self) -> str: ...
    @property
    def traceparent(self) -> bytes: ...
    @property
    def is_from_trusted(self) -> bool: ...

    trace: Trace | None
    """Its place in a trace; None before it is first sent, and without tracing."""

    def send_trace(self, traceparent: bytes, *, is_new: bool) -> None:
        """Send this header to endpoints from now on; a new trace has no `tracestate`."""
        ...

    unsampled: bytes
    """The ids of a new trace that is not sampled, in hexadecimal: 16 digits of its span and 32 of its own;
    empty without one."""

    def send_unsampled(self, ids: bytes) -> None:
        """Tell endpoints that the request is not sampled."""
        ...

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name; "" if it is missing."""
        ...

    @property
    def tenant(self) -> Grant | None:
        """What its client may do; None if clients need no credentials."""
        ...

    @property
    def objective_s(self) -> float:
        """The time in which the client wants its first token; infinite without one."""
        ...


class ServedRequest(Protocol):
    """`life` has its history, and `request` the head of the HTTP request."""

    @property
    def life(self) -> Life: ...
    @property
    def request(self) -> LoggedRequest: ...
    @property
    def request_id(self) -> bytes: ...
