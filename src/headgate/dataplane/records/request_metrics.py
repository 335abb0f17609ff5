"""Metrics of requests: how they ended, and how long they and their tokens took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.dataplane.queueing.metrics import MAX_MODELS
from headgate.dataplane.records.live_names import NONE, LiveNames
from headgate.requests.account import SERVED
from headgate.requests.queueing.kinds import UNKNOWN
from headgate.telemetry import Counter, Histogram, LabelValues, Registry
from headgate.telemetry.metrics import PER_TOKEN_S

if TYPE_CHECKING:
    from headgate.dataplane.records.access_log import Tokens
    from headgate.dataplane.records.log_field_cache import LogFieldCache
    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.requests.refusal import Refusal
    from headgate.telemetry.tracing import Trace

Key = tuple[str, str, str, str, str, int, str, bool]
"""Model, route, rule, pool, the endpoint's name of the model, status, outcome, whether a stream was
requested.

Includes everything in `LogFieldCache`: a request that began before a change of objects may end after it.
"""


class RequestMetrics:
    """The metrics of all requests."""

    def __init__(self, registry: Registry, prefix: str) -> None:
        self.models = LabelValues(MAX_MODELS)
        """Models with their own series."""
        labels = ("model", "pool")
        self.ended = Counter(
            f"{prefix}_requests",
            "Requests by their end: the status that the client received (499: it left before), and "
            "`served`, `client_gone`, or the error code. Pages of the gateway itself do not count.",
            ("model", "route", "pool", "code", "outcome"),
        )
        self.duration = Histogram(
            f"{prefix}_request_duration_seconds", "From a request's arrival to its end.", labels
        )
        self.queue = Histogram(
            f"{prefix}_queue_seconds",
            "From a request's arrival until its last attempt was sent: queueing, connecting and failed "
            "attempts.",
            labels,
        )
        self.first_token = Histogram(
            f"{prefix}_time_to_first_token_seconds",
            "From a streamed request's arrival to the first byte of its response body.",
            labels,
        )
        self.first_token_error = Histogram(
            f"{prefix}_first_token_error_seconds",
            "Absolute difference between the predicted and the actual time to the first token of a streamed "
            "request.",
            ("pool",),
        )
        self.per_token = Histogram(
            f"{prefix}_time_per_output_token_seconds",
            "For streamed requests that were served: the time from the first token to the end, per further "
            "token that the engine reports.",
            labels,
            PER_TOKEN_S,
        )
        self.tokens = Counter(
            f"{prefix}_tokens",
            "Tokens that the engines report; direction is input or output.",
            (*labels, "direction"),
        )
        self.body_bytes = Counter(
            f"{prefix}_body_bytes",
            "Bytes of bodies; direction is in (requests, as clients sent them) or out (endpoints' "
            "responses, as forwarded).",
            ("pool", "direction"),
        )
        self._of_models = (
            self.ended,
            self.duration,
            self.queue,
            self.first_token,
            self.per_token,
            self.tokens,
        )
        self._of_pools = (*self._of_models, self.first_token_error, self.body_bytes)
        registry.add(*self._of_pools)

    def refused(self, refusal: Refusal) -> None:
        """Count a request that is neither for an endpoint nor for a page of the gateway."""
        self.ended.labels(UNKNOWN, NONE, NONE, str(refusal.status), refusal.code).value += 1

    def keep(self, live: LiveNames) -> None:
        """Delete the series of all other routes, models and pools."""
        self.models.keep(live.models)
        self.ended.keep("route", live.routes)
        for metric in self._of_models:
            metric.keep("model", live.models)
        for metric in self._of_pools:
            metric.keep("pool", live.pools)


class _StreamSeries:
    """Additional metrics of streamed responses: when their tokens arrived."""

    __slots__ = ("_first_token", "_first_token_error", "_per_token")

    def __init__(self, metrics: RequestMetrics, model: str, pool: str) -> None:
        self._first_token = metrics.first_token.labels(model, pool)
        self._first_token_error = metrics.first_token_error.labels(pool)
        self._per_token = metrics.per_token.labels(model, pool)

    def observe(self, ended: ServedRequest, tokens: Tokens | None, now: float) -> None:
        """Record a request whose response body has begun."""
        life = ended.life
        first_at, attempt = life.account.first_byte_at, life.attempt
        self._first_token.observe(first_at - ended.request.arrived_at)
        if attempt is not None and attempt.choice.first_token_s is not None:
            self._first_token_error.observe(abs(first_at - attempt.began_at - attempt.choice.first_token_s))
        if tokens is not None and tokens[1] > 1 and life.account.outcome == SERVED:
            self._per_token.observe((now - first_at) / (tokens[1] - 1))

    def exemplify(
        self, ended: ServedRequest, tokens: Tokens | None, trace_id: str, span_id: str, at: float, now: float
    ) -> None:
        """Name its trace as an example of what `observe` has recorded."""
        first_at = ended.life.account.first_byte_at
        first_s = first_at - ended.request.arrived_at
        self._first_token.exemplify(first_s, trace_id, span_id, at)
        if tokens is not None and tokens[1] > 1 and ended.life.account.outcome == SERVED:
            self._per_token.exemplify((now - first_at) / (tokens[1] - 1), trace_id, span_id, at)


class RequestSeries:
    """The metrics of all requests with one key, and their words in the access log."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_duration",
        "_ended",
        "_input_tokens",
        "_output_tokens",
        "_queue",
        "_stream",
        "words",
    )

    def __init__(self, metrics: RequestMetrics, key: Key, words: LogFieldCache) -> None:
        model, route, _, pool, _, status, outcome, is_stream = key
        model = metrics.models.value(model)
        self._ended = metrics.ended.labels(model, route, pool, str(status), outcome)
        self._duration = metrics.duration.labels(model, pool)
        self._queue = metrics.queue.labels(model, pool) if pool != NONE else None
        # Create no series for impossible cases: each histogram has twenty.
        self._stream = _StreamSeries(metrics, model, pool) if is_stream and pool != NONE else None
        self._input_tokens = metrics.tokens.labels(model, pool, "input")
        self._output_tokens = metrics.tokens.labels(model, pool, "output")
        self._bytes_in = metrics.body_bytes.labels(pool, "in")
        self._bytes_out = metrics.body_bytes.labels(pool, "out")
        self.words = words

    def observe(self, ended: ServedRequest, now: float) -> Tokens | None:
        """Record a request that is settled. Returns the tokens that its engine reported."""
        account, arrived_at = ended.life.account, ended.request.arrived_at
        self._ended.value += 1
        self._duration.observe(now - arrived_at)
        if self._queue is not None and account.sent_at:
            self._queue.observe(account.sent_at - arrived_at)
        self._bytes_in.value += account.bytes_in
        self._bytes_out.value += account.bytes_out
        usage, tokens = account.usage, None
        if usage is not None:
            tokens = prompt_tokens, response_tokens = usage.prompt, usage.completion
            self._input_tokens.value += prompt_tokens
            self._output_tokens.value += response_tokens
        if self._stream is not None and account.first_byte_at:
            self._stream.observe(ended, tokens, now)
        return tokens

    def exemplify(
        self, ended: ServedRequest, tokens: Tokens | None, trace: Trace, at: float, now: float
    ) -> None:
        """Name the trace of a request as an example of what `observe` has recorded of it. `at` is in seconds
        since 1970."""
        account, arrived_at = ended.life.account, ended.request.arrived_at
        trace_id, span_id = trace.trace_id.decode(), f"{trace.span_id:016x}"
        self._duration.exemplify(now - arrived_at, trace_id, span_id, at)
        if self._queue is not None and account.sent_at:
            self._queue.exemplify(account.sent_at - arrived_at, trace_id, span_id, at)
        if self._stream is not None and account.first_byte_at:
            self._stream.exemplify(ended, tokens, trace_id, span_id, at, now)
