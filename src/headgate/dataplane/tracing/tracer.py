"""Decides which requests are traced: before they are sent, some by chance or by their client; at their end,
those that failed or were slow.

Costs little for all others: two ids for each request, and a comparison at its end.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from headgate.dataplane.tracing import attributes, forwarded, spans
from headgate.requests.account import SERVED
from headgate.telemetry.tracing import context

if TYPE_CHECKING:
    from headgate.dataplane.records.access_log import Forwarded
    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.dataplane.settings import Tracing
    from headgate.dataplane.tracing.forwarded import ForwardedTrace
    from headgate.dataplane.tracing.traced_request import TracedRequest
    from headgate.telemetry.tracing import Export, FinishedTrace, Trace

log = logging.getLogger(__name__)

SAMPLED: Final = "sampled"
ERROR: Final = "error"
SLOW: Final = "slow"
OVER_LIMIT: Final = "over_limit"
_SERVER_ERROR: Final = 500


class _Allowance:
    """So many traces per second, so that a flood of errors does not become a flood of spans."""

    def __init__(self, saved: float) -> None:
        self._saved = saved
        self._saved_at = 0.0

    def take(self, per_s: float, now: float) -> bool:
        """Take one, if there is one; those of a second can be saved."""
        self._saved = min(self._saved + max(now - self._saved_at, 0.0) * per_s, max(per_s, 1.0))
        self._saved_at = now
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True


class Tracer:
    """One process. `clock` is the time in seconds since 1970, for the times of spans."""

    def __init__(
        self,
        settings: Tracing,
        export: Export,
        rng: random.Random,
        send: Callable[[FinishedTrace], None],
        clock: Callable[[], float],
        *,
        kind: int,
    ) -> None:
        self._export = export
        self._rng = rng
        self._random_bits = rng.getrandbits
        self._send = send
        self.clock = clock
        self._kind = kind
        self.change(settings)
        self._allowance = _Allowance(settings.max_kept_per_s)
        self.counts: Counter[str] = Counter()
        """Traces by the reason for which they were kept; over_limit were not."""

    def change(self, settings: Tracing) -> None:
        """Apply new settings."""
        self._settings = settings
        ratio = settings.sample_ratio if settings.sample_ratio is not None else self._export.ratio
        self._bound = context.sampling_bound(ratio)
        self._believed: Literal["anyone", "trusted", "nobody"] = (
            settings.sampled_from if self._export.follows_parents else "nobody"
        )
        self._slow_s = settings.slow_s or math.inf
        self._slow_first_s = settings.slow_first_token_s or math.inf
        self._quick_s = min(self._slow_s, self._slow_first_s)
        """A request that took less is not slow."""

    def begin(self, request: TracedRequest) -> None:
        """Decide whether a request is sampled, and say so to its endpoints if it is not: otherwise they might
        begin traces of their own. Whoever sends the request names its parent if it is sampled."""
        trace = context.continued(request.traceparent, self._rng) if request.traceparent else None
        if trace is None:
            ids = self._random_bits(context.BITS)
            if ids & context.LARGEST < self._bound:
                request.trace = context.begun(context.text(ids), is_sampled=True)
            else:  # almost all requests
                request.send_unsampled(b"%048x" % ids)
            return
        request.trace = trace
        believed = self._believed
        if believed == "anyone" or (believed == "trusted" and request.is_from_trusted):
            return
        was_sampled = trace.is_sampled
        trace.is_sampled = trace.is_kept = context.sampled(trace.trace_id, self._bound)
        if was_sampled and not trace.is_sampled:
            request.send_trace(trace.traceparent(), is_new=False)

    def settled(self, ended: ServedRequest, now: float) -> Trace | None:
        """A request is over. Returns its trace if its spans are exported."""
        request, account = ended.request, ended.life.account
        trace = request.trace
        if trace is not None and trace.is_sampled:
            reason = SAMPLED
        elif (
            account.outcome == SERVED
            and account.status < _SERVER_ERROR
            and now - request.arrived_at < self._quick_s
        ):
            return None
        else:
            reason = self._reason(ended, now)
            if not reason:
                return None
            trace = request.trace
        assert trace is not None
        trace.is_kept = True
        self.counts[reason] += 1
        try:
            self._send(spans.finished(ended, trace, reason, self._kind, self.clock() - now, now))
        except Exception:  # a bug here must not cost the client its response
            log.exception("a trace is dropped: %s", ended.life.story())
        return trace

    def forwarded(self, traced: ForwardedTrace, record: Forwarded, now: float) -> None:
        """A request to a Service is over."""
        if traced.trace is None and not traced.unsampled:  # it was never sent
            self.begin(traced)
        trace, reason = traced.trace, ""
        if trace is not None and trace.is_sampled:
            reason = SAMPLED
        elif self._settings.errors and forwarded.is_failed(record):
            reason = self._if_allowed(ERROR, now)
        elif now - record.arrived_at >= self._slow_s:
            reason = self._if_allowed(SLOW, now)
        if not reason:
            return
        if trace is None:
            trace = context.begun(traced.unsampled, is_sampled=False)
        self.counts[reason] += 1
        try:
            self._send(forwarded.finished(traced, trace, record, reason, self._kind, self.clock() - now, now))
        except Exception:  # a bug here must not cost the client its response
            log.exception("the trace of a request to a Service is dropped")

    def _if_allowed(self, reason: str, now: float) -> str:
        """The reason, or "" if as many traces were kept as may be."""
        if self._allowance.take(self._settings.max_kept_per_s, now):
            return reason
        self.counts[OVER_LIMIT] += 1
        return ""

    def _reason(self, ended: ServedRequest, now: float) -> str:
        """Why a request is kept that is not known to be sampled; "" if it is not."""
        request = ended.request
        trace = request.trace
        if trace is None and not request.unsampled:  # it was never sent
            self.begin(request)
            trace = request.trace
            if trace is not None and trace.is_sampled:
                return SAMPLED
        reason = ""
        if self._settings.errors and attributes.is_failed(ended):
            reason = ERROR
        elif self._is_slow(ended, now):
            reason = SLOW
        if reason:
            reason = self._if_allowed(reason, now)
        if reason and trace is None:
            request.trace = context.begun(request.unsampled, is_sampled=False)
        return reason

    def _is_slow(self, ended: ServedRequest, now: float) -> bool:
        life, arrived_at = ended.life, ended.request.arrived_at
        if now - arrived_at >= self._slow_s:
            return True
        first_at = life.account.first_byte_at or now
        return life.decision.stream and first_at - arrived_at >= self._slow_first_s
