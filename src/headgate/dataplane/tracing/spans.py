"""Builds the spans of a request that is over, from the times that its life has recorded.

    chat MODEL               the request, from its arrival to its end
    ├─ queue                 in the queue of its pool
    ├─ pick                  from then, or from the last failure, until an endpoint was picked
    └─ attempt               at one endpoint; one for each attempt
       ├─ prefill            until the first token, or at another endpoint
       └─ decode             from then to the end

No text of prompts and responses is part of a span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.dataplane.tracing import places
from headgate.dataplane.tracing.attributes import (
    is_failed,
    of_attempt,
    of_endpoint,
    of_pick,
    of_queue,
    of_request,
    operation,
)
from headgate.requests.account import SERVED
from headgate.telemetry.tracing.span import CLIENT, INTERNAL, FinishedTrace, Span, Value

if TYPE_CHECKING:
    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.requests.life import Attempt, Life
    from headgate.requests.prefill import PrefillAttempt
    from headgate.telemetry.tracing.context import Trace

MAX_ATTEMPTS: Final = 16
"""The last attempts of a request have spans."""
MAX_TEXT: Final = 512
"""Characters of an error."""
MAX_STATE: Final = 512
"""Characters of a `tracestate` that vendors must propagate; longer ones are left out."""


def finished(
    ended: ServedRequest, trace: Trace, reason: str, kind: int, offset_s: float, now: float
) -> FinishedTrace:
    """All spans of a request. `reason`: why its trace is kept. `offset_s`: what makes of the process's time
    that since 1970."""
    making = _Making(ended, trace, offset_s, now)
    making.request(kind, reason)
    making.queue()
    making.attempts()
    state = ended.request.header(b"tracestate") if trace.parent_id else ""
    if len(state) > MAX_STATE:
        state = ""
    return FinishedTrace(trace.trace_id.decode(), trace.is_sampled, state, making.spans)


class _Making:
    """The spans of one request so far."""

    def __init__(self, ended: ServedRequest, trace: Trace, offset_s: float, now: float) -> None:
        self._ended = ended
        self._life: Life = ended.life
        self._trace = trace
        self._offset_s = offset_s
        self._arrived_at = ended.request.arrived_at
        self._now = max(now, self._arrived_at)
        self.spans: list[Span] = []

    def request(self, kind: int, reason: str) -> None:
        life, account = self._life, self._life.account
        error = None
        if is_failed(self._ended):  # an error of the client is none of its server
            why = account.error_message or f"the endpoint responded with status {account.status}"
            error = why[:MAX_TEXT]
        named = operation(self._ended.request.path) or self._ended.request.method.decode("latin-1")[:16]
        match = life.decision.match
        if match is not None and not match.route.takes_unknown:
            named = f"{named} {life.decision.model[:128]}"
        start_ns, end_ns = self._ns(self._arrived_at), self._ns(self._now)
        attributes = of_request(self._ended, reason, self._now)
        span_id, parent_id = self._trace.span_id, self._trace.parent_id
        self.spans.append(Span(named, span_id, parent_id, kind, start_ns, end_ns, attributes, error))

    def queue(self) -> None:
        wait = self._life.wait
        if wait is None:
            return
        end = self._now if wait.over_at is None else wait.over_at
        error = wait.dropped_reason or None
        self._add("queue", places.QUEUE, 0, INTERNAL, wait.begun_at, end, of_queue(wait), error)

    def attempts(self) -> None:
        life = self._life
        account = life.account
        free_at = self._arrived_at
        for failed in (account.failed_attempts or ())[-MAX_ATTEMPTS:]:
            if failed.is_prefill:
                attributes = of_endpoint(failed.endpoint, failed.host, failed.port)
                attributes["error.type"] = failed.reason
                place = places.of_prefill(failed.number)
                self._add(
                    "prefill", place, 0, CLIENT, failed.began_at, failed.ended_at, attributes, failed.reason
                )
                free_at = failed.ended_at
                continue
            self._pick(failed.number, free_at, failed.began_at, {})
            attributes = of_endpoint(failed.endpoint, failed.host, failed.port)
            attributes["error.type"] = failed.reason
            attributes["headgate.attempt.number"] = failed.number
            place = places.of_attempt(failed.number)
            self._add(
                "attempt", place, 0, CLIENT, failed.began_at, failed.ended_at, attributes, failed.reason
            )
            free_at = failed.ended_at
        attempt = life.attempt
        if attempt is not None and life.load is not None:
            self._pick(account.attempts, free_at, attempt.began_at, of_pick(life, attempt))
            self._last(attempt)
        prefill = life.pairing.prefill if life.pairing is not None else None
        if prefill is not None:
            self._remote_prefill(prefill)

    def _last(self, attempt: Attempt) -> None:
        """The attempt that responded, or was expected to."""
        life, account = self._life, self._life.account
        number = account.attempts
        place = places.of_attempt(number)
        error = None
        if account.outcome != SERVED:
            error = account.outcome
        elif account.upstream_status >= 500:
            error = f"status {account.upstream_status}"
        self._add("attempt", place, 0, CLIENT, attempt.began_at, self._now, of_attempt(life, attempt), error)
        sent_at = account.sent_at
        is_sent = bool(sent_at) and sent_at >= attempt.began_at
        if not is_sent or not life.decision.stream or account.upstream_status >= 400:
            return  # without a stream, nothing tells when the first token came
        parent = place
        first_at, decode = account.first_byte_at, {} if error is None else {"error.type": account.outcome}
        if life.pairing is not None and life.pairing.prefill is not None:
            prefilled_at = life.pairing.prefill.ended_at
            start = max(sent_at, prefilled_at) if prefilled_at else sent_at
            self._add(
                "decode", places.of_decode(number), parent, INTERNAL, start, self._now, {**decode}, error
            )
            return
        self._add(
            "prefill", places.of_prefill(number), parent, INTERNAL, sent_at, first_at or self._now, {}, None
        )
        if first_at:
            self._add(
                "decode", places.of_decode(number), parent, INTERNAL, first_at, self._now, {**decode}, error
            )

    def _remote_prefill(self, prefill: PrefillAttempt) -> None:
        """The prefill by another endpoint: a part of the attempt for which it was begun, if that lasted as
        long. A later attempt may have used it, too."""
        end = prefill.ended_at or self._now
        endpoint = prefill.load.endpoint
        attributes = of_endpoint(endpoint.name, endpoint.host, endpoint.port)
        error = None
        if prefill.is_over and not prefill.took_s:
            error = f"status {prefill.status}" if prefill.status >= 400 else "it was not needed any more"
            if prefill.status >= 400:
                attributes["error.type"] = str(prefill.status)
                attributes["http.response.status_code"] = prefill.status
        if (cached := prefill.response.cached_tokens) is not None:
            attributes["gen_ai.usage.cache_read.input_tokens"] = cached
        parent, parent_id = 0, self._trace.child_id(places.of_attempt(prefill.number))
        for span in self.spans:
            is_within = span.start_ns <= self._ns(prefill.began_at) and self._ns(end) <= span.end_ns
            if span.span_id == parent_id and is_within:
                parent = places.of_attempt(prefill.number)
        place = places.of_prefill(prefill.number)
        self._add("prefill", place, parent, CLIENT, prefill.began_at, end, attributes, error)

    def _pick(self, number: int, free_at: float, end: float, attributes: dict[str, Value]) -> None:
        """`free_at`: when the attempt before it had failed."""
        place, wait = places.of_pick(number), self._life.wait
        if wait is not None and wait.over_at is not None and free_at < wait.over_at <= end:
            free_at = wait.over_at
        self._add("pick", place, 0, INTERNAL, min(free_at, end), end, attributes, None)

    def _add(
        self,
        name: str,
        place: int,
        parent: int,
        kind: int,
        start: float,
        end: float,
        attributes: dict[str, Value],
        error: str | None,
    ) -> None:
        """Add a span, within the time of the request."""
        start = min(max(start, self._arrived_at), self._now)
        end = min(max(end, start), self._now)
        span_id = self._trace.child_id(place)
        parent_id = self._trace.child_id(parent) if parent else self._trace.span_id
        self.spans.append(
            Span(name, span_id, parent_id, kind, self._ns(start), self._ns(end), attributes, error)
        )

    def _ns(self, at: float) -> int:
        return int((at + self._offset_s) * 1e9)
