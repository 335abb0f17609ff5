"""A request to a Gateway while it is served: what was decided about it, and its record when it is over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headgate.dataplane import decision_header
from headgate.dataplane.records import log_text
from headgate.dataplane.records.access_log import Forwarded
from headgate.dataplane.tracing.forwarded import ForwardedTrace
from headgate.requests.account import CLIENT_GONE, SERVED

if TYPE_CHECKING:
    from headgate.auth.outcome import Identity
    from headgate.gateway.gateway_api.connection import EntryConnection
    from headgate.gateway.gateway_api.head import Head
    from headgate.gateway.gateway_api.shared import Shared
    from headgate.requests.client import Header
    from headgate.routing.gateway_api import Entry, Filters, HeaderChange

_REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")


class Task:
    """Made for each request, and recorded exactly once if it does not go to a pool."""

    __slots__ = (
        "arrived_at",
        "attempts",
        "backend",
        "bytes_in",
        "bytes_out",
        "client",
        "endpoint",
        "entry",
        "filters",
        "head",
        "identity",
        "is_over",
        "request_id",
        "traced",
    )

    def __init__(self, client: EntryConnection, head: Head, arrived_at: float) -> None:
        self.client = client
        self.head = head
        self.arrived_at = arrived_at
        self.identity: Identity | None = None
        """The client, if it had to authenticate."""
        self.entry: Entry | None = None
        self.filters: tuple[Filters, ...] = ()
        """Those of the rule, and of the backend."""
        self.backend: str | None = None
        """The Service, or the pool with a picker of its own."""
        self.endpoint = ""
        """Address of the last endpoint that was tried."""
        self.attempts = 0
        self.bytes_in = self.bytes_out = 0
        given = next((value for name, value in head.headers if name == b"x-request-id"), b"")
        is_plain = _REQUEST_ID.fullmatch(given) is not None
        self.request_id = given if is_plain else client.shared.services.identities.request_id()
        self.is_over = False
        self.traced: ForwardedTrace | None = None
        """Its place in a trace, if it goes to a Service, and requests are traced."""

    @property
    def shared(self) -> Shared:
        return self.client.shared

    def begin_trace(self, headers: list[Header]) -> None:
        """The request goes to a Service with these headers."""
        if self.shared.services.recorder.tracer is not None:
            self.traced = ForwardedTrace(headers, is_from_trusted=self.client.peer.is_trusted)

    def traced_headers(self, headers: list[Header], now: float) -> list[Header]:
        """The headers for an attempt, which may name its trace."""
        traced, tracer = self.traced, self.shared.services.recorder.tracer
        if traced is None or tracer is None:
            return headers
        if traced.trace is None and not traced.unsampled:
            tracer.begin(traced)
        return traced.for_attempt(self.attempts, now)

    @property
    def response_changes(self) -> list[HeaderChange]:
        """What filters change about the headers of the response."""
        return [each.response for each in self.filters if each.response is not None]

    def decision(self, refused: str = "") -> list[Header]:
        """The header with the decision, if a trusted client asks for it. `refused`: the code of a refusal."""
        headers = self.head.headers
        if (b"x-headgate-explain", b"1") not in headers or not self.client.peer.trusts_client(headers):
            return []
        pairs: list[tuple[str, str]] = []
        if self.entry is not None:
            rule = self.entry.rule
            pairs += (("route", rule.as_route.name), ("rule", rule.split.name))
        if self.backend is not None:
            pairs.append(("target", self.backend))
        if self.endpoint:
            pairs.append(("address", self.endpoint))
        pairs.append(("attempts", str(self.attempts)))
        if refused:
            pairs.append(("refused", refused))
        return [(decision_header.NAME, decision_header.value_of(pairs))]

    def decision_lines(self, refused: str) -> bytes:
        """The lines of that header, for a response of the gateway's own."""
        return b"".join(b"%b: %b\r\n" % header for header in self.decision(refused))

    def gone(self, now: float) -> None:
        """The client has left."""
        self.over(CLIENT_GONE, "client_gone", now)

    def served(self, status: int, now: float) -> None:
        """A response was forwarded to its end."""
        self.over(status, SERVED, now)

    def over(self, status: int, outcome: str, now: float, error: str = "") -> None:
        """Record the request. Only the first call counts."""
        if self.is_over:
            return
        self.is_over = True
        head, shared = self.head, self.shared
        rule = self.entry.rule if self.entry is not None else None
        version = "0" if head.is_http_1_0 else "1"
        line = f"{head.method.decode('latin-1')} {log_text.escaped(head.path)} HTTP/1.{version}"
        record = Forwarded(
            arrived_at=self.arrived_at,
            address=self.client.peer.client_address(head.headers),
            line=line,
            request_id=self.request_id,
            route=rule.as_route.name if rule is not None else None,
            service=self.backend,
            endpoint=self.endpoint,
            attempts=self.attempts,
            status=status,
            outcome=outcome,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            error=error,
        )
        shared.metrics.ended(record, now)
        if self.traced is not None and (tracer := shared.services.recorder.tracer) is not None:
            tracer.forwarded(self.traced, record, now)
        if (log := shared.services.recorder.log) is not None:
            log.forwarded(record, now)
