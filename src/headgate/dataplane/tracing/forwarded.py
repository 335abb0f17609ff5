"""The trace of a request to a Service: the request, and the attempt that responded or failed last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.dataplane.records.log_field_cache import origin
from headgate.dataplane.tracing import places
from headgate.requests.account import SERVED
from headgate.telemetry.tracing.span import CLIENT, FinishedTrace, Span, Value

if TYPE_CHECKING:
    from headgate.dataplane.records.access_log import Forwarded
    from headgate.requests.client import Header
    from headgate.telemetry.tracing import Trace

MAX_TEXT: Final = 256
MAX_STATE: Final = 512
"""Characters of a `tracestate` that vendors must propagate; longer ones are left out."""
_PARENT, _STATE = b"traceparent", b"tracestate"


class ForwardedTrace:
    """The headers of a request to a Service, and its place in a trace: a `TracedRequest`."""

    __slots__ = ("headers", "is_from_trusted", "sent_at", "state", "trace", "traceparent", "unsampled")

    def __init__(self, headers: list[Header], *, is_from_trusted: bool) -> None:
        self.headers = headers
        self.is_from_trusted = is_from_trusted
        self.traceparent = next((value for name, value in headers if name == _PARENT), b"")
        self.state = next((value for name, value in headers if name == _STATE), b"")
        self.trace: Trace | None = None
        self.unsampled = b""
        self.sent_at = 0.0
        """When the last attempt began; 0 without one."""

    def send_trace(self, traceparent: bytes, *, is_new: bool) -> None:
        dropped = (_PARENT, _STATE) if is_new else (_PARENT,)
        self.headers = [header for header in self.headers if header[0] not in dropped]
        self.headers.append((_PARENT, traceparent))

    def send_unsampled(self, ids: bytes) -> None:
        self.unsampled = ids
        self.send_trace(b"00-%b-%b-00" % (ids[16:], ids[:16]), is_new=True)

    def for_attempt(self, number: int, now: float) -> list[Header]:
        """The headers for an endpoint, whose spans belong to this attempt."""
        self.sent_at = now
        trace = self.trace
        if trace is not None and trace.is_sampled:
            self.send_trace(trace.traceparent(places.of_attempt(number)), is_new=not trace.parent_id)
        return self.headers


def is_failed(record: Forwarded) -> bool:
    """Whether a request failed, and its client is not to blame."""
    if record.outcome == SERVED:
        return record.status >= 500
    return origin(record.status, record.outcome) != "client"


def finished(
    traced: ForwardedTrace,
    trace: Trace,
    record: Forwarded,
    reason: str,
    kind: int,
    offset_s: float,
    now: float,
) -> FinishedTrace:
    """Its spans. `reason`: why the trace is kept. `offset_s`: what makes of the process's time that since
    1970."""
    method, path, _ = record.line.split(" ", 2)
    error = (record.error or f"the endpoint responded with status {record.status}")[: 2 * MAX_TEXT]
    attributes: dict[str, Value] = {
        "http.request.method": method[:MAX_TEXT],
        "url.path": path[:MAX_TEXT],
        "http.response.status_code": record.status,
        "http.request.body.size": record.bytes_in,
        "http.response.body.size": record.bytes_out,
        "client.address": record.address,
        "headgate.request.id": record.request_id.decode("latin-1")[:MAX_TEXT],
        "headgate.request.outcome": record.outcome,
        "headgate.request.attempts": record.attempts,
        "headgate.route": record.route or "",
        "headgate.service": record.service or "",
        "headgate.trace.kept": reason,
    }
    kind_of_error = _error_type(record)
    if kind_of_error:
        attributes["error.type"] = kind_of_error
    start_ns, end_ns = (int((at + offset_s) * 1e9) for at in (record.arrived_at, now))
    name = f"{method[:16]} {record.service or record.route or 'none'}"
    failure = error if is_failed(record) else None
    spans = [Span(name, trace.span_id, trace.parent_id, kind, start_ns, end_ns, attributes, failure)]
    if traced.sent_at:
        host, _, port = record.endpoint.rpartition(":")
        told: dict[str, Value] = {
            "server.address": host.strip("[]"),
            "server.port": int(port) if port.isdigit() else 0,
            "headgate.attempt.number": record.attempts,
        }
        if record.outcome == SERVED:
            told["http.response.status_code"] = record.status
        if kind_of_error:
            told["error.type"] = kind_of_error
        span_id = trace.child_id(places.of_attempt(record.attempts))
        sent_ns = int((traced.sent_at + offset_s) * 1e9)
        spans.append(Span("attempt", span_id, trace.span_id, CLIENT, sent_ns, end_ns, told, failure))
    state = traced.state.decode("latin-1") if trace.parent_id and len(traced.state) <= MAX_STATE else ""
    return FinishedTrace(trace.trace_id.decode(), trace.is_sampled, state, spans)


def _error_type(record: Forwarded) -> str:
    if record.outcome != SERVED:
        return record.outcome
    return str(record.status) if record.status >= 400 else ""
