"""How long requests wait, and how fast tokens come: the state-dependent queue of one replica.

Arrivals are random (Poisson) and accepted while fewer than max_batch + max_queue requests are there. With n
of them, the replica completes `completions_per_ms()[min(n, max_batch) - 1]`: a birth-death process, whose
probabilities have a closed form. States above max_batch form a geometric series, so a solution takes as many
steps as the batch has, in logarithms, without overflow.

Two corrections of the reference autoscaler: gamma counts only if there is a prompt, and a request that cannot
be accepted counts as late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from headgate.planning import tails
from headgate.planning.replica import ModelError, Replica, Times
from headgate.planning.search import Array, Flags, bisect
from headgate.planning.stalls import Stalls

__all__ = [
    "Analysis",
    "Replicas",
    "Steady",
    "analyses",
    "analyze",
    "analyze_all",
    "chunks",
    "late_share",
    "steady",
]

_CELLS: Final = 65_536
"""Probabilities that are computed at once: as many as fit a processor's cache."""

_ROUNDING: Final = 1e-9
"""A prefill that takes as long as its target is in time, however the batch size was rounded."""
_FLAT: Final = 1e-9
"""A full batch that takes longer by less than this share takes as long as an empty one."""


class Steady(NamedTuple):
    """Long-run state of queues, one element for each."""

    waiting: Array
    """Mean requests that wait."""
    in_service: Array
    """Mean requests in service."""
    blocked: Array
    """Share of arrivals that find the queue full."""
    accepted_per_ms: Array
    ratio: Array
    """Arrivals compared with the completions of a full batch."""
    full: Array
    """Probability of a full batch with nobody waiting."""

    @property
    def wait_ms(self) -> Array:
        return self.waiting / self.accepted_per_ms

    @property
    def service_ms(self) -> Array:
        return self.in_service / self.accepted_per_ms


def steady(log_weights: Array, batch: Array, queue: Array, log_full: Array, rate_per_ms: Array) -> Steady:
    """Solve queues with any positive arrival rate.

    A row of `log_weights` has, for n from 0, the logarithm of the product of 1 / completions over the states
    up to n, and -inf above the batch size. `log_full` is the logarithm of the completions of a full batch.
    """
    states = np.arange(log_weights.shape[1], dtype=float)
    log_rate = np.log(rate_per_ms)
    logs = states * log_rate[:, None]
    logs += log_weights
    log_ratio = log_rate - log_full
    at_batch = np.take_along_axis(logs, batch.astype(int)[:, None], axis=1)[:, 0]
    scale = np.maximum(logs.max(axis=1), at_batch + np.maximum(queue * log_ratio, 0))
    logs -= scale[:, None]
    head = np.exp(logs, out=logs)
    tail = tails.geometric(log_ratio, queue)
    height = np.exp(at_batch + np.maximum(queue * log_ratio, 0) - scale)
    total = head.sum(axis=1) + height * tail.total
    blocked = np.where(queue > 0, height * tail.last, head[np.arange(len(batch)), batch.astype(int)]) / total
    return Steady(
        waiting=height * tail.weighted / total,
        in_service=(head @ states + batch * height * tail.total) / total,
        blocked=blocked,
        accepted_per_ms=rate_per_ms * (1 - blocked),
        ratio=np.exp(log_ratio),
        full=np.exp(at_batch - scale) / total,
    )


def _log_weights(empty_ms: Array, each_ms: Array, batch: Array) -> Array:
    """What `steady` takes, for requests whose time grows by `each_ms` with each one in the batch."""
    size = np.arange(1, int(batch.max()) + 1, dtype=float)
    completions_per_ms = size / (empty_ms[:, None] + each_ms[:, None] * size)
    weights = np.zeros((len(batch), len(size) + 1))
    np.cumsum(-np.log(completions_per_ms), axis=1, out=weights[:, 1:])
    weights[:, 1:][size > batch[:, None]] = -np.inf
    return weights


class Replicas:
    """Replicas that are solved together. Results have one element for each, in order."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = tuple(replicas)
        times = self._times = Times(replicas)
        self.batch, self.queue = times.batch, times.queue
        self.min_rate_per_s, self.max_rate_per_s = times.min_rate_per_s, times.max_rate_per_s
        self._full_per_ms = times.full_per_ms
        empty_ms = times.service_ms(0.0)
        self._log_weights = _log_weights(empty_ms, times.service_ms(1.0) - empty_ms, self.batch)
        self._idle_prefill_ms, self._idle_decode_ms = times.prefill_ms(0.0), times.decode_ms(0.0)
        self._prefill_slope_ms: Array = times.prefill_ms(1.0) - self._idle_prefill_ms
        self._decode_slope_ms: Array = np.array([each.profile.beta_ms for each in replicas])
        self._steps = times.steps
        self.prompts_differ: Flags = times.prompt_spread > 0

    def solve(self, rate_per_s: Array) -> Steady:
        return steady(self._log_weights, self.batch, self.queue, np.log(self._full_per_ms), rate_per_s / 1000)

    def effective_batch(self, state: Steady) -> Array:
        """The batch size at which a request takes as long as the mean one does.

        Where the time does not depend on it, the mean batch size over time.
        """
        fixed = self._idle_prefill_ms + self._steps * self._idle_decode_ms
        slope = self._prefill_slope_ms + self._steps * self._decode_slope_ms
        is_flat = slope * self.batch <= _FLAT * fixed
        batch = np.where(
            is_flat, state.in_service, (state.service_ms - fixed) / np.where(is_flat, 1.0, slope)
        )
        return np.asarray(np.clip(batch, 0, self.batch), float)

    def prefill_ms(self, batch: Array) -> Array:
        return self._idle_prefill_ms + self._prefill_slope_ms * batch

    def itl_ms(self, batch: Array) -> Array:
        """Time between tokens."""
        return self._idle_decode_ms + self._decode_slope_ms * batch

    @cached_property
    def stalls(self) -> Stalls:
        return Stalls(self._times)

    def stalled_itl_ms(self, rate_per_s: Array, batch: Array) -> Array:
        """Time between tokens with the prefills of others in between, at most that of a full batch.

        The reference adds them to the time of a request's own prefill; the sum is the same. As they may be in
        beta as well, the larger of two estimates counts.
        """
        found = np.maximum(self._spread_itl_ms(batch), self.stalls.itl_ms(rate_per_s, batch))
        return np.minimum(found, self._spread_itl_ms(self.batch))

    def _spread_itl_ms(self, batch: Array) -> Array:
        """As if the prefills of others were spread evenly."""
        others_ms = self._prefill_slope_ms * np.maximum(batch - 1, 0)
        return self.itl_ms(batch) + others_ms / np.maximum(self._steps, 1)

    def mean_ttft_ms(self, state: Steady) -> Array:
        return state.wait_ms + self.prefill_ms(self.effective_batch(state))

    def late_share(self, state: Steady, ttft_ms: Array) -> Array:
        """Share of requests whose first token comes later than `ttft_ms` after their arrival."""
        left_ms = ttft_ms - self.prefill_ms(self.effective_batch(state))
        is_long = left_ms < -_ROUNDING * ttft_ms
        late = np.where(is_long, 1.0, self.waits_longer(state, np.maximum(left_ms, 0)))
        return state.blocked + (1 - state.blocked) * late

    def waits_longer(self, state: Steady, time_ms: Array) -> Array:
        """Share of accepted requests that wait longer; for rates within the range of Analyze.

        A request that finds k others waiting starts after k + 1 completions of a full batch: an Erlang time.
        """
        decided = state.full / ((1 - state.blocked) * (1 - state.ratio))
        arrivals = self._full_per_ms * time_ms
        early = np.exp(-arrivals * (1 - state.ratio)) * tails.poisson_at_most(
            self.queue - 1, arrivals * state.ratio
        )
        lost = state.ratio**self.queue * tails.poisson_at_most(self.queue - 1, arrivals)
        return np.asarray(np.clip(decided * (early - lost), 0, 1), float)

    def wait_quantile_ms(self, state: Steady, percentile: Array) -> Array:
        """The wait that this percentage of accepted requests does not exceed."""
        late = 1 - percentile / 100
        zero = np.zeros_like(late)
        decided = state.full / ((1 - state.blocked) * (1 - state.ratio))
        longest = np.log(np.maximum(decided / late, 1)) / (self._full_per_ms * (1 - state.ratio))
        found = bisect(lambda time_ms: self.waits_longer(state, time_ms), zero, longest, late)
        return np.where(self.waits_longer(state, zero) <= late, 0.0, found.x)


class Analysis(NamedTuple):
    """What requests of one replica experience at one arrival rate."""

    rate_per_s: float
    throughput_per_s: float
    """Arrivals that are accepted."""
    blocked: float
    """Share of arrivals that find the queue full."""
    response_ms: float
    wait_ms: float
    in_service: float
    """Mean batch size over time."""
    effective_batch: float
    """Mean batch size that a request runs in."""
    prefill_ms: float
    itl_ms: float
    """Without the prefills of others."""
    utilization: float
    ttft_ms: float
    """The mean."""
    ttft_percentile_ms: float
    """As if prefills were spread evenly over time."""
    stalled_itl_ms: float
    """With the prefills of others, which run between the tokens of a request."""
    stalled_ttft_percentile_ms: float
    """With those of others in bursts, or without, whichever is longer."""


def analyze(replica: Replica, rate_per_s: float, percentile: float = 95.0) -> Analysis:
    """Analyze one replica; raises ModelError for a rate that is not between 0 and its highest one."""
    return analyze_all([(replica, rate_per_s, percentile)])[0]


def analyze_all(loads: Sequence[tuple[Replica, float, float]]) -> list[Analysis]:
    """Analyze many replicas together, in order, each at a rate and for a percentile; see `analyze`."""
    for replica, rate_per_s, _ in loads:
        if not 0 < rate_per_s <= replica.max_rate_per_s:
            most = f"{replica.max_rate_per_s:.6g} req/s"
            raise ModelError(f"rate: {rate_per_s} is not above 0 and at most {most}")
    found: dict[int, Analysis] = {}
    for chunk in chunks([replica for replica, _, _ in loads]):
        replicas, rates, percentiles = zip(*(loads[index] for index in chunk), strict=True)
        own = analyses(Replicas(replicas), np.array(rates), np.array(percentiles))
        found.update(zip(chunk, own, strict=True))
    return [found[index] for index in range(len(loads))]


def late_share(replica: Replica, rate_per_s: float, ttft_ms: float) -> float:
    """Share of requests whose first token comes later, with bursts of prefills, at a possible rate."""
    model, rate, ttft = Replicas([replica]), np.array([rate_per_s]), np.array([ttft_ms])
    queued = model.late_share(model.solve(rate), ttft)
    return float(max(queued[0], model.stalls.late_share(rate, ttft)[0]))


def analyses(model: Replicas, rate_per_s: Array, percentile: Array) -> list[Analysis]:
    """Analyze replicas at rates that are within their ranges."""
    state = model.solve(rate_per_s)
    batch = model.effective_batch(state)
    prefill_ms = model.prefill_ms(batch)
    ttft_ms = model.wait_quantile_ms(state, percentile) + prefill_ms
    columns = (
        rate_per_s,
        state.accepted_per_ms * 1000,
        state.blocked,
        state.wait_ms + state.service_ms,
        state.wait_ms,
        state.in_service,
        batch,
        prefill_ms,
        model.itl_ms(batch),
        np.minimum(state.in_service / model.batch, 1.0),
        state.wait_ms + prefill_ms,
        ttft_ms,
        model.stalled_itl_ms(rate_per_s, batch),
        np.maximum(ttft_ms, model.stalls.ttft_quantile_ms(rate_per_s, percentile)),
    )
    return [Analysis(*row) for row in np.stack(columns, axis=1).tolist()]


def chunks(replicas: Sequence[Replica]) -> Iterator[list[int]]:
    """Indexes of replicas to solve together: similar batch sizes, bounded memory."""
    chunk: list[int] = []
    for index in sorted(range(len(replicas)), key=lambda index: -replicas[index].max_batch):
        if chunk and (len(chunk) + 1) * replicas[chunk[0]].max_batch > _CELLS:
            yield chunk
            chunk = []
        chunk.append(index)
    if chunk:
        yield chunk
