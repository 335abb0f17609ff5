"""Records every request once it is settled: metrics, and one line of access log.

The children of the metrics are cached per kind of end, since a lookup by labels costs more than the sample.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate import routing
from headgate.gateway.access_log import AccessLog, Tokens
from headgate.gateway.live_names import NONE, LiveNames
from headgate.gateway.log_field_cache import LogFieldCache
from headgate.gateway.queueing.metrics import MAX_MODELS, WaitMetrics
from headgate.requests.account import SERVED
from headgate.requests.health import why
from headgate.requests.queueing.kinds import UNKNOWN
from headgate.telemetry import Counter, Histogram, LabelValues, LineLog, Registry
from headgate.telemetry.metrics import PER_TOKEN_S

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.gateway.served_request import ServedRequest
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.requests.refusal import Refusal

log = logging.getLogger(__name__)

MAX_BOUND = 10_000

_Key = tuple[str, str, str, str, str, int, str, bool]
"""Model, route, rule, pool, the endpoint's name of the model, status, outcome, whether a stream was
requested.

Includes everything in `LogFieldCache`: a request that began before a change of objects may end after it.
"""


class _Stream:
    """Additional metrics of streamed responses: when their tokens arrived."""

    __slots__ = ("_first_token", "_first_token_error", "_per_token")

    def __init__(self, recorder: Recorder, model: str, pool: str) -> None:
        self._first_token = recorder.first_token.labels(model, pool)
        self._first_token_error = recorder.first_token_error.labels(pool)
        self._per_token = recorder.per_token.labels(model, pool)

    def observe(self, ended: ServedRequest, tokens: Tokens | None, now: float) -> None:
        """Record a request whose response body has begun."""
        life = ended.life
        first_at, attempt = life.account.first_byte_at, life.attempt
        self._first_token.observe(first_at - ended.request.arrived_at)
        if attempt is not None and attempt.choice.first_token_s is not None:
            self._first_token_error.observe(abs(first_at - attempt.began_at - attempt.choice.first_token_s))
        if tokens is not None and tokens[1] > 1 and life.account.outcome == SERVED:
            self._per_token.observe((now - first_at) / (tokens[1] - 1))


class _Bound:
    """The metrics of all requests with one key, and their words in the access log."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "duration",
        "input_tokens",
        "output_tokens",
        "queue",
        "requests",
        "stream",
        "words",
    )

    def __init__(self, recorder: Recorder, key: _Key, words: LogFieldCache) -> None:
        model, route, _, pool, _, status, outcome, is_stream = key
        model = recorder.models.value(model)
        self.requests = recorder.requests.labels(model, route, pool, str(status), outcome)
        self.duration = recorder.duration.labels(model, pool)
        self.queue = recorder.queue.labels(model, pool) if pool != NONE else None
        # Create no series for impossible cases: each histogram has twenty.
        self.stream = _Stream(recorder, model, pool) if is_stream and pool != NONE else None
        self.input_tokens = recorder.tokens.labels(model, pool, "input")
        self.output_tokens = recorder.tokens.labels(model, pool, "output")
        self.bytes_in = recorder.body_bytes.labels(pool, "in")
        self.bytes_out = recorder.body_bytes.labels(pool, "out")
        self.words = words


class Recorder:
    """Counts and logs requests. `log` is None without an access log."""

    def __init__(self, registry: Registry, log: LineLog | None, log_format: str = "text") -> None:
        self.write_to(log, log_format)
        self._bound: dict[_Key, _Bound] = {}
        self._live = LiveNames()
        self._is_late = False
        """Whether a request ended after the last snapshot, with an object that may be gone."""
        self.models = LabelValues(MAX_MODELS)
        labels = ("model", "pool")
        self.requests = Counter(
            "headgate_gateway_requests",
            "Requests by their end: the status that the client received (499: it left before), and "
            "`served`, `client_gone`, or the error code. Pages of the gateway itself do not count.",
            ("model", "route", "pool", "code", "outcome"),
        )
        self.duration = Histogram(
            "headgate_gateway_request_duration_seconds", "From a request's arrival to its end.", labels
        )
        self.queue = Histogram(
            "headgate_gateway_queue_seconds",
            "From a request's arrival until its last attempt was sent: queueing, connecting and failed "
            "attempts.",
            labels,
        )
        self.first_token = Histogram(
            "headgate_gateway_time_to_first_token_seconds",
            "From a streamed request's arrival to the first byte of its response body.",
            labels,
        )
        self.first_token_error = Histogram(
            "headgate_gateway_first_token_error_seconds",
            "Absolute difference between the predicted and the actual time to the first token of a streamed "
            "request.",
            ("pool",),
        )
        self.per_token = Histogram(
            "headgate_gateway_time_per_output_token_seconds",
            "For streamed requests that were served: the time from the first token to the end, per further "
            "token that the engine reports.",
            labels,
            PER_TOKEN_S,
        )
        self.connect = Histogram(
            "headgate_gateway_upstream_connect_seconds",
            "Time to open a connection to an endpoint, including TLS.",
            ("pool",),
        )
        self.tokens = Counter(
            "headgate_gateway_tokens",
            "Tokens that the engines report; direction is input or output.",
            (*labels, "direction"),
        )
        self.cached_tokens = Counter(
            "headgate_gateway_cached_tokens",
            "Prompt tokens of requests whose engine reported cached tokens; kind is prompt (all of them), "
            "believed (expected to be cached when the endpoint was picked) or reported.",
            ("pool", "kind"),
        )
        self.body_bytes = Counter(
            "headgate_gateway_body_bytes",
            "Bytes of bodies; direction is in (requests, as clients sent them) or out (endpoints' "
            "responses, as forwarded).",
            ("pool", "direction"),
        )
        self.attempts_failed = Counter(
            "headgate_gateway_attempts_failed",
            "Attempts without a complete response, with 502, 503 or 504, or with a status after which "
            "another endpoint was tried; reason is what happened.",
            ("pool", "reason"),
        )
        self.retries = Counter(
            "headgate_gateway_retries",
            "Retries requested, by whether the retry budget of the pool granted them.",
            ("pool", "granted"),
        )
        self.ejections = Counter(
            "headgate_gateway_ejections",
            "Endpoints ejected from their pools, by the last failure; `retry_after` counts those that asked "
            "for no requests for a while.",
            ("pool", "reason"),
        )
        self.rejections = Counter(
            "headgate_gateway_rejected",
            "Connections closed because of an invalid request or a limit.",
            ("reason",),
        )
        self.translations_failed = Counter(
            "headgate_gateway_translations_failed",
            "Object changes that could not be applied: requests continue with the previous objects. This is "
            "a bug of the gateway; see its log.",
        )
        self.prefill_decisions = Counter(
            "headgate_gateway_prefill_decisions",
            "For pools with separate prefill and decode: attempts by where the prompt is prefilled; "
            "`remote` is another endpoint, anything else is the reason why the decoding endpoint prefills.",
            ("pool", "decision"),
        )
        self.prefill = Histogram(
            "headgate_gateway_prefill_seconds",
            "Time that an endpoint took to prefill a prompt for another, including queue and connection.",
            ("pool",),
        )
        self._of_models = (
            self.requests,
            self.duration,
            self.queue,
            self.first_token,
            self.per_token,
            self.tokens,
        )
        self._of_pools = (
            *self._of_models,
            self.first_token_error,
            self.cached_tokens,
            self.connect,
            self.body_bytes,
            self.attempts_failed,
            self.retries,
            self.ejections,
            self.prefill_decisions,
            self.prefill,
        )
        registry.add(*self._of_pools, self.rejections, self.translations_failed)
        self.waits = WaitMetrics(registry, self.models)

    def write_to(self, log: LineLog | None, log_format: str) -> None:
        """Write log lines to `log` from now on, in this format; None turns the access log off."""
        self.log = AccessLog(log, log_format) if log is not None else None

    def settled(self, ended: ServedRequest, now: float) -> None:
        """Called exactly once for every request, however it ended."""
        life = ended.life
        account, decision, pool = life.account, life.decision, life.pool
        match = decision.match
        is_named = match is not None and not match.route.takes_unknown
        if match is not None:
            route, rule = match.route.name, match.rule.name
        else:
            route, rule = NONE, NONE
        model, asked = (decision.model, decision.upstream_model) if is_named else (UNKNOWN, "")
        pool_name = pool.name if pool is not None else NONE
        key = (model, route, rule, pool_name, asked, account.status, account.outcome, decision.stream)
        bound = self._bound.get(key) or self._bind(key, life)
        arrived_at = ended.request.arrived_at
        bound.requests.value += 1
        bound.duration.observe(now - arrived_at)
        if bound.queue is not None and account.sent_at:
            bound.queue.observe(account.sent_at - arrived_at)
        bound.bytes_in.value += account.bytes_in
        bound.bytes_out.value += account.bytes_out
        usage, tokens = account.usage, None
        if usage is not None:
            tokens = prompt_tokens, response_tokens = usage.prompt, usage.completion
            bound.input_tokens.value += prompt_tokens
            bound.output_tokens.value += response_tokens
        if bound.stream is not None and account.first_byte_at:
            bound.stream.observe(ended, tokens, now)
        if self.log is not None:
            words = bound.words if is_named else LogFieldCache(life)
            self.log.add(self.log.line(ended, words, tokens, now))

    def _bind(self, key: _Key, life: Life) -> _Bound:
        model, route, _, pool, *_ = key
        self._is_late = self._is_late or not self._live.have(model, route, pool)
        if len(self._bound) >= MAX_BOUND:
            self._bound.clear()
        bound = self._bound[key] = _Bound(self, key, LogFieldCache(life))
        return bound

    def use(self, snapshot: routing.Snapshot, difference: routing.Difference, *, is_anew: bool) -> None:
        """Delete the series of routes, pools and models that are gone.

        While none is gone, no series are examined, unless a request ended after its objects did.
        """
        self._bound.clear()
        is_less = self._live.change(snapshot, difference, is_anew=is_anew)
        if is_less or self._is_late:
            self._is_late = False
            self._end_series()

    def _end_series(self) -> None:
        live = self._live
        self.models.keep(live.models)
        self.requests.keep("route", live.routes)
        for metric in self._of_models:
            metric.keep("model", live.models)
        self.waits.keep(live.pools, live.models)
        for metric in self._of_pools:
            metric.keep("pool", live.pools)

    def cached(self, pool: PoolState, prompt: int, believed: int, reported: int) -> None:
        """Tokens of one prompt, and how many of them were expected and reported to be cached."""
        for kind, tokens in (("prompt", prompt), ("believed", believed), ("reported", reported)):
            self.cached_tokens.labels(pool.name, kind).value += tokens

    def connected(self, pool: PoolState, took_s: float) -> None:
        self.connect.labels(pool.name).observe(took_s)

    def attempt_failed(self, pool: PoolState, reason: str) -> None:
        self.attempts_failed.labels(pool.name, reason).value += 1

    def retry(self, pool: PoolState, granted: bool) -> None:
        self.retries.labels(pool.name, "yes" if granted else "no").value += 1

    def paired(self, pool: PoolState, decision: str) -> None:
        self.prefill_decisions.labels(pool.name, decision).value += 1

    def prefilled(self, pool: PoolState, took_s: float) -> None:
        self.prefill.labels(pool.name).observe(took_s)

    def ejected(self, pool: PoolState, load: EndpointState, reason: str, *, is_out: bool) -> None:
        if is_out:
            self.ejections.labels(pool.name, reason).value += 1
            what = f"is ejected for {load.ejected_for_s:g} s"
        else:
            what = "is still used, as the pool has no better one,"
        where = load.endpoint.name, load.endpoint.address, pool.name
        log.warning("%s (%s) of %s %s after %s", *where, what, why(load))

    def rests(self, pool: PoolState, load: EndpointState, seconds: float) -> None:
        self.ejections.labels(pool.name, "retry_after").value += 1
        where = load.endpoint.name, load.endpoint.address, pool.name
        log.info("%s (%s) of %s gets no requests for %g s, as it requested (Retry-After)", *where, seconds)

    def refused_here(self, refusal: Refusal) -> None:
        """Called for a request that is neither for an endpoint nor for a page of the gateway. Only counted,
        since in a flood, log lines would cost more than the responses."""
        self.requests.labels(UNKNOWN, NONE, NONE, str(refusal.status), refusal.code).value += 1

    def displaced(self) -> None:
        """Called for a connection without a request that was displaced by another."""
        self.rejections.labels("idle_displaced").value += 1

    def rejected(self, refusal: Refusal, address: str, target: bytes, now: float) -> None:
        """Called for bytes that never became a request, and for rejected connections."""
        self.rejections.labels(refusal.code).value += 1
        if self.log is not None:
            self.log.rejected(refusal, address, target, now)

    def flush(self) -> None:
        if self.log is not None:
            self.log.flush()
