"""What one gateway knows of the load of a pool, for autoscaling.

Computed when somebody asks, from what the data path keeps anyway. All figures but `endpoints` and `kv_usage`
are about this process's own requests, so those of several processes add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from headgate.requests.stream_times import Times

if TYPE_CHECKING:
    from headgate.fleet import EndpointState, Rates
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.pool_queue import PoolQueue

MAX_BATCH: Final = 256
"""Requests that an engine is assumed to run at a time if its memory allows: the usual limit."""
CLEARED_S: Final = 5.0
"""Requests that wait count as if they were to be served within this time."""
MAX_COUNT: Final = 1_000_000_000
MAX_AMOUNT: Final = 1e12
MAX_CHARACTERS: Final = 1024
"""Of what other processes report: larger figures and longer names are errors."""


Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)]
Name = Annotated[str, msgspec.Meta(max_length=MAX_CHARACTERS)]


class PoolSignals(msgspec.Struct, frozen=True, kw_only=True):
    """The signals of one pool, as `GET /signals` shows them."""

    kind: Name
    namespace: Name
    name: Name
    model: Name = ""
    """The served model's name at the endpoints; empty if requests keep the name that they came with."""
    endpoints: Count = 0
    """Ready endpoints that generate responses."""
    requests_running: Count = 0
    """Requests on their way to an endpoint or there."""
    requests_waiting: Count = 0
    """Requests in the gateway's queue."""
    waiting_for_endpoints: Count = 0
    """Those that wait because the pool has no ready endpoint."""
    idle_s: Amount | None = None
    """How long there has been no request; None while there is one."""
    arrivals: Amount = 0.0
    """Requests per second, in the last 15 s."""
    prompt_tokens: Amount = 0.0
    """Tokens of their prompts, per second."""
    cached_tokens: Amount = 0.0
    """Those that a cache was expected to have."""
    prompt_squares: Amount = 0.0
    """Sum of the squares of thousands of uncached tokens of each prompt, per second."""
    output_tokens: Amount = 0.0
    """Tokens that their responses are expected to have, per second."""
    work_seconds: Amount = 0.0
    """Seconds of a replica's time that its requests need, for each second; see `work_seconds` below."""
    unbegun_tokens: Amount = 0.0
    """Uncached tokens of the prompts that endpoints are expected not to have begun."""
    kv_usage: Amount | None = None
    """Mean share of the KV caches in use, 0 to 1; None if no engine reports it."""
    slo_requests: Count = 0
    """Streamed requests with an objective for their first token that ended in the last 15 s."""
    slo_misses: Count = 0
    """Those that missed it."""
    timed_requests: Count = 0
    """Streamed requests of two tokens or more that were served to their end in the last 15 s."""
    ttft_sum_s: Amount = 0.0
    """Sum of their times from sending to the first token."""
    timed_tokens: Count = 0
    """Their tokens after the first ones."""
    tokens_sum_s: Amount = 0.0
    """Sum of the times that these took."""
    queued_requests: Count = 0
    """Those of `timed_requests` at whose end requests queued in the engine, or it did not report how many."""

    @property
    def times(self) -> Times:
        return Times(
            self.timed_requests, self.ttft_sum_s, self.timed_tokens, self.tokens_sum_s, self.queued_requests
        )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /signals`."""

    is_ready: bool
    """Whether the gateway has loaded the objects: before, it knows no pools."""
    pools: list[PoolSignals] = []
    no_answer: list[str] = []
    """Why the requests of some worker processes are missing; empty if the figures are complete."""

    @property
    def is_complete(self) -> bool:
        return self.is_ready and not self.no_answer


def _starved(pool: PoolState, queue: PoolQueue | None, now: float) -> int:
    """Requests that wait for endpoints; 1 if the last one for a pool that starts from zero was rejected, or
    left, just now."""
    starved = queue.waiting_for_endpoints if queue is not None else None
    if starved is None:
        return 0
    return starved.requests or int(pool.pool.start is not None and starved.is_wanted(now))


def of_pool(pool: PoolState, queue: PoolQueue | None, now: float) -> PoolSignals:
    """The signals of a pool; `queue` is where its requests wait."""
    key, traffic = pool.pool.key, pool.traffic
    recent, times = traffic.recent(now), traffic.times.recent()
    waiting = queue.held if queue is not None else 0
    answering = pool.loads if pool.pairs is None else pool.pairs.decode
    return PoolSignals(
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        model=pool.pool.model or "",
        endpoints=len(answering),
        requests_running=running(pool, queue),
        requests_waiting=waiting,
        waiting_for_endpoints=_starved(pool, queue, now),
        idle_s=traffic.idle_s(now),
        arrivals=recent.arrivals_per_s,
        prompt_tokens=recent.prompt_tokens_per_s + recent.cached_tokens_per_s,
        cached_tokens=recent.cached_tokens_per_s,
        prompt_squares=min(recent.prompt_squares_per_s, MAX_AMOUNT),
        output_tokens=recent.output_tokens_per_s,
        work_seconds=work_seconds(pool, queue, now),
        unbegun_tokens=sum(_unbegun_tokens(load, now) for load in pool.loads),
        kv_usage=kv_usage(pool),
        slo_requests=recent.objectives,
        slo_misses=recent.misses,
        timed_requests=times.requests,
        ttft_sum_s=times.ttft_s,
        timed_tokens=times.tokens,
        tokens_sum_s=times.tokens_s,
        queued_requests=times.queued,
    )


def running(pool: PoolState, queue: PoolQueue | None) -> int:
    """Requests that do not wait in the queue."""
    return max(pool.traffic.in_flight - (queue.held if queue is not None else 0), 0)


def kv_usage(pool: PoolState) -> float | None:
    """The mean over the engines that report it."""
    readings = [load.reading for load in pool.loads if load.reading is not None]
    usages = [reading.kv_usage for reading in readings if reading.kv_usage is not None]
    return sum(usages) / len(usages) if usages else None


def merged(same: Sequence[PoolSignals]) -> PoolSignals:
    """The signals of one pool from those of several processes."""
    if len(same) == 1:
        return same[0]
    idle = [each.idle_s for each in same if each.idle_s is not None]
    usages = [each.kv_usage for each in same if each.kv_usage is not None]
    first = same[0]
    return PoolSignals(
        kind=first.kind,
        namespace=first.namespace,
        name=first.name,
        model=first.model,
        endpoints=max(each.endpoints for each in same),
        requests_running=sum(each.requests_running for each in same),
        requests_waiting=sum(each.requests_waiting for each in same),
        waiting_for_endpoints=sum(each.waiting_for_endpoints for each in same),
        idle_s=min(idle) if len(idle) == len(same) else None,
        arrivals=sum(each.arrivals for each in same),
        prompt_tokens=sum(each.prompt_tokens for each in same),
        cached_tokens=sum(each.cached_tokens for each in same),
        prompt_squares=sum(each.prompt_squares for each in same),
        output_tokens=sum(each.output_tokens for each in same),
        work_seconds=sum(each.work_seconds for each in same),
        unbegun_tokens=sum(each.unbegun_tokens for each in same),
        kv_usage=sum(usages) / len(usages) if usages else None,
        slo_requests=sum(each.slo_requests for each in same),
        slo_misses=sum(each.slo_misses for each in same),
        timed_requests=sum(each.timed_requests for each in same),
        ttft_sum_s=sum(each.ttft_sum_s for each in same),
        timed_tokens=sum(each.timed_tokens for each in same),
        tokens_sum_s=sum(each.tokens_sum_s for each in same),
        queued_requests=sum(each.queued_requests for each in same),
    )


def merged_by_pool(reports: Iterable[Sequence[PoolSignals]]) -> list[PoolSignals]:
    """One entry for each pool that any of the processes knows."""
    by_pool: dict[tuple[str, str, str], list[PoolSignals]] = {}
    for report in reports:
        for each in report:
            by_pool.setdefault((each.kind, each.namespace, each.name), []).append(each)
    return [merged(same) for _, same in sorted(by_pool.items())]


# -- work


def work_seconds(pool: PoolState, queue: PoolQueue | None, now: float) -> float:
    """Seconds of a replica's time that the pool's requests need, for each second: 1 is all that one replica
    can do.

    This is the work of the requests that arrived lately (since a surge began, if one did), per second, and
    what would clear the backlog in `CLEARED_S`: the requests in the queue, and prompts that endpoints have
    not begun. A prompt that an endpoint works on is no backlog, as it needs no further replica.

    A prompt counts with its uncached tokens at the learned prefill rate. A response counts with its expected
    tokens, at what a token costs in a full batch: a step serves the whole batch, so one response alone would
    take longer, but a second one beside it adds little.
    """
    recent = pool.traffic.recent(now)
    if not pool.traffic.in_flight and not recent.arrivals_per_s:
        return 0.0
    costs = TokenCosts.of(pool)
    waiting = queue.waiting_tokens() if queue is not None and queue.held else (0, 0)
    return costs.work_seconds(
        (recent.prompt_tokens_per_s * recent.surge, recent.output_tokens_per_s * recent.surge),
        waiting,
        sum(_unbegun_tokens(load, now) * load.estimator.rates.token_s for load in pool.loads),
    )


class TokenCosts(NamedTuple):
    """Seconds of an average replica for a token; before anything was learned, the usual ones."""

    prompt_s: float
    output_s: float
    """In a full batch."""

    @classmethod
    def of(cls, pool: PoolState) -> TokenCosts:
        loads = pool.loads
        if not loads:
            return cls(pool.rates.token_s, _decode_token_s(pool.rates, MAX_BATCH))
        prompt_s = sum(load.estimator.rates.token_s for load in loads)
        output_s = sum(_decode_token_s(load.estimator.rates, _batch(load)) for load in loads)
        return cls(prompt_s / len(loads), output_s / len(loads))

    def seconds(self, prompt_tokens: float, output_tokens: float) -> float:
        return prompt_tokens * self.prompt_s + output_tokens * self.output_s

    def work_seconds(
        self, arriving_per_s: tuple[float, float], queued: tuple[float, float], unbegun_s: float
    ) -> float:
        """From prompt and output tokens of what arrives each second, those of what is queued before the
        endpoints, and the seconds of prefill that endpoints have not begun."""
        return self.seconds(*arriving_per_s) + (self.seconds(*queued) + unbegun_s) / CLEARED_S


def _unbegun_tokens(load: EndpointState, now: float) -> float:
    """Those of the prompts that this process has sent and that the endpoint has not begun."""
    token_s = load.estimator.rates.token_s
    own_tokens = load.prefill_tokens - load.elsewhere.prefill_tokens
    if not own_tokens or not token_s:
        return 0.0
    # The estimate may include requests of other gateways, and adapters that are loaded.
    return min(own_tokens, load.estimator.unbegun_s(now) / token_s)


def _decode_token_s(rates: Rates, batch: float) -> float:
    """Seconds of a replica for one token of a response, with `batch` responses in each step."""
    return (rates.pool.beside_tokens + rates.pool.alone_tokens / batch) * rates.token_s


def _batch(load: EndpointState) -> float:
    """How many requests like the present ones fit into an engine's KV cache, at most `MAX_BATCH`."""
    reading = load.reading
    if reading is None or not reading.running or not reading.kv_usage:
        return MAX_BATCH
    return min(max(reading.running / reading.kv_usage, 1.0), MAX_BATCH)
