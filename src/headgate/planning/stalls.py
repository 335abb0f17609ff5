"""How late first tokens come because prefills stop the whole batch: the queue of one replica with bursts.

A prefill delays all requests of the batch at once, so that none ends meanwhile, and others arrive: requests
pile up more than in the state-dependent queue, which spreads prefills evenly over time. Between prefills,
arrivals therefore come in groups: a request, those that arrive during its prefill, those that arrive during
theirs, and so on (a busy period; Consul's generalized Poisson distribution if responses are equally long).
Groups of geometric size with the same mean and variance keep the probabilities of the queue a product:

    rho = rate * blocking                        share of time that prefills take
    q = 1 - (1 - rho)^2                          size of groups
    r(n) = rate * (1 - rho) * (S(n) - n * blocking) / n
    p(n) = A(n) * r(n),  A(n + 1) = A(n) * (q + r(n)),  A(1) = p(0)

S(n) is the time of a request, of which n prefills are blocking. An arrival finds n requests with probability
(1 - q) * A(n + 1). Without prefills, all of it is the queue of `headgate.planning.queueing`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from headgate.planning import lengths, tails
from headgate.planning.replica import Times
from headgate.planning.search import Array, bisect

__all__ = ["Bursts", "Stalls", "blocking_ms"]

_MOST: Final = 0.999
"""Prefills take less than this share of the time of a request in a full batch."""
_LATER: Final = 0.9
"""How many prefills each request that arrives later during a step costs one that waits."""
_UNEVEN: Final = 0.5
"""How much of the variance of prefills, relative to the square of their mean, makes waits for them longer.
A queue that serves one at a time has all of it; the simulated engine has half.
"""
_STEPS: Final = 30
"""Of Newton's method, which needs about six; more for tiny loads."""
_EXACT: Final = 1e-12
"""Relative step at which it ends."""
_LEAST: Final = 1e-12


def blocking_ms(times: Times) -> Array:
    """How long a prefill stops all others at most.

    Profiles do not tell it: one that was measured with a full batch has the prefills of others in beta, so as
    much of beta may be prefills as a prefill takes.
    """
    each_ms = times.service_ms(1.0) - times.service_ms(0.0)
    return np.minimum(np.minimum(times.prefill_ms(1.0), each_ms), _MOST / times.full_per_ms)


class Bursts(NamedTuple):
    """Long-run state of queues with bursts, one element for each."""

    blocked: Array
    """Share of arrivals that find the queue full."""
    full: Array
    """Share that find a full batch and nobody waiting."""
    ratio: Array
    """Arrivals that find one more waiting, compared with those."""
    busy: Array
    """Share of time that prefills take."""


class Stalls:
    """Replicas that are solved together."""

    def __init__(self, times: Times) -> None:
        self._batch = times.batch.astype(int)
        self._queue = times.queue
        self._own_ms = times.prefill_ms(1.0)
        prompts = lengths.of(times.prompt_spread)
        self._shares = prompts.shares
        self._prefills_ms = _prefills_ms(times, prompts.factors)
        """Of prompts of different lengths, ascending."""
        self._variance = _variance(self._own_ms, self._prefills_ms, self._shares)
        self._step_ms = np.where(times.has_prompt, times.decode_ms(1.0), 0.0)
        """Of a batch that decodes."""
        self._blocking_ms = blocking_ms(times)
        self._steps = np.maximum(times.steps, 1.0)
        empty_ms, lone_ms = times.service_ms(0.0), times.service_ms(1.0)
        self._lone_decode_ms = lone_ms - self._own_ms
        self._each_ms = lone_ms - empty_ms
        """What a request of the batch adds to the time of each."""
        self._completions_per_ms = times.full_per_ms
        size = np.arange(1, int(self._batch.max()) + 1, dtype=float)
        held = (empty_ms[:, None] + self._each_ms[:, None] * size) / size - self._blocking_ms[:, None]
        self._held_ms = np.where(size <= self._batch[:, None], np.maximum(held, 0.0) + _LEAST / size, 0.0)
        """Of each batch size from 1: the time of a request without blocking ones, divided by the size."""

    def solve(self, rate_per_s: Array) -> Bursts:
        """Rates within the ranges of the replicas, at which `ratio` is below 1."""
        rate_per_ms = rate_per_s / 1000
        busy = rate_per_ms * self._blocking_ms
        group = 1 - (1 - busy) ** 2
        load = (rate_per_ms * (1 - busy))[:, None] * self._held_ms
        growth = np.log(group[:, None] + load, where=load > 0, out=np.zeros_like(load))
        logs = np.cumsum(growth, axis=1)
        last = self._batch - 1
        rows = np.arange(len(last))
        ratio = group + load[rows, last]
        at_full = logs[rows, last]
        scale = np.maximum(at_full, 0.0)
        scale = np.maximum(scale, np.max(logs, axis=1, where=load > 0, initial=0.0))
        # p(n) is A(n + 1) * load / (group + load), and p(0) is A(1) = 1.
        head = np.exp(logs - scale[:, None])
        head *= np.divide(load, group[:, None] + load, where=load > 0, out=np.zeros_like(load))
        beyond = tails.geometric(np.log(ratio), self._queue)
        height = np.exp(at_full - scale)
        tail = height * (load[rows, last] / ratio) * beyond.total
        total = np.exp(-scale) + head.sum(axis=1) + tail
        found = height / total
        return Bursts(
            blocked=found * ratio**self._queue,
            full=(1 - group) * found,
            ratio=ratio,
            busy=busy,
        )

    def late_share(self, rate_per_s: Array, ttft_ms: Array) -> Array:
        """Share of requests whose first token comes later than `ttft_ms` after their arrival."""
        return self._late(self.solve(rate_per_s), ttft_ms)

    def ttft_quantile_ms(self, rate_per_s: Array, percentile: Array) -> Array:
        """The TTFT that this percentage of accepted requests does not exceed."""
        state = self.solve(rate_per_s)
        late = 1 - percentile / 100
        decay_per_ms = np.minimum(self._completions_per_ms * (1 - state.ratio), self._prefill_decay(state)[1])
        first_ms, longest_ms = self._prefills_ms[:, 0], self._prefills_ms[:, -1] + self._step_ms
        longest_ms = longest_ms + np.log(2 / late / (1 - state.blocked)) / decay_per_ms
        accepted = late + (1 - late) * state.blocked
        found = bisect(lambda time_ms: self._late(state, time_ms), first_ms, longest_ms, accepted)
        return np.where(self._late(state, first_ms) <= accepted, first_ms, found.x)

    def lone_ttft_ms(self, percentile: Array) -> Array:
        """Of an idle replica, that this percentage of requests does not exceed."""
        longest = np.argmax(np.cumsum(self._shares) >= percentile[:, None] / 100 - _LEAST, axis=1)
        return np.asarray(self._prefills_ms[np.arange(len(longest)), longest], float)

    def itl_ms(self, rate_per_s: Array, batch: Array) -> Array:
        """Time between tokens in batches of this mean size.

        Arrivals during decoding are prefilled in between, and so are those that came during the step in which
        the request was prefilled itself, together with others.
        """
        busy = rate_per_s / 1000 * self._blocking_ms
        others = np.maximum(batch, 1.0) - 1
        decoding_ms = self._lone_decode_ms + others * (self._each_ms - self._blocking_ms)
        before_ms = busy * self._blocking_ms * (1 + busy)
        return np.asarray((decoding_ms + before_ms) / (1 - busy) / self._steps, float)

    def _late(self, state: Bursts, ttft_ms: Array) -> Array:
        """Those that find a full batch start once others have ended, all others once they are prefilled."""
        left_ms = ttft_ms[:, None] - self._prefills_ms
        spare_ms = np.maximum(left_ms, 0.0)
        waiting = self._waits_longer(state, spare_ms) + self._prefilled_later(state, spare_ms)
        late = np.minimum(state.blocked[:, None] + waiting, 1.0)
        return np.asarray(np.where(left_ms < 0, 1.0, late) @ self._shares, float)

    def _waits_longer(self, state: Bursts, time_ms: Array) -> Array:
        """The sum over those who wait already of Erlang times; of all requests."""
        events = self._completions_per_ms[:, None] * time_ms
        ratio, queue = state.ratio[:, None], self._queue[:, None]
        early = np.exp(-events * (1 - ratio)) * tails.poisson_at_most(queue - 1, events * ratio)
        lost = ratio**queue * tails.poisson_at_most(queue - 1, events)
        return np.asarray(np.maximum(state.full[:, None] / (1 - ratio) * (early - lost), 0.0), float)

    def _prefilled_later(self, state: Bursts, time_ms: Array) -> Array:
        """Those that find a place wait for the step under way, and for prefills of others.

        Cramér's approximation of the wait of a queue with constant service times. Prompts that arrive during
        a step are prefilled together, so that a request also waits for later ones, unless a step is full.
        A profile does not tell how many fit into a step, nor what each adds to it: the simulated engine
        confirms the mean of both bounds, and `_LATER`.
        """
        share, decay_per_ms = self._prefill_decay(state)
        spare_ms = np.maximum(time_ms - self._step_ms[:, None], 0)
        return np.asarray(share[:, None] * np.exp(-decay_per_ms[:, None] * spare_ms), float)

    def _prefill_decay(self, state: Bursts) -> tuple[Array, Array]:
        """The share of requests that wait for prefills, and how fast it falls with time."""
        each_ms = np.maximum((self._blocking_ms + self._own_ms) / 2, _LEAST)
        busy = np.clip(state.busy * each_ms / np.maximum(self._blocking_ms, _LEAST), _LEAST, _MOST)
        root = _decay(busy)
        share = np.minimum((1 - busy) / (busy + root - 1), busy)
        uneven = 1 + _UNEVEN * self._variance
        return np.asarray(share, float), np.asarray(_together(busy, root) / each_ms / uneven, float)


def _prefills_ms(times: Times, factors: Array) -> Array:
    """Of lengths relative to the mean: a part of a prefill does not depend on the length."""
    fixed_ms, mean_ms = times.prefill_ms(0.0), times.prefill_ms(1.0)
    return np.asarray(mean_ms[:, None] + (mean_ms - fixed_ms)[:, None] * (factors - 1), float)


def _variance(mean_ms: Array, prefills_ms: Array, shares: Array) -> Array:
    """As a multiple of the square of the mean."""
    squares = prefills_ms**2 @ shares / np.maximum(mean_ms, _LEAST) ** 2
    return np.asarray(np.maximum(squares - 1, 0.0), float)


def _decay(busy: Array) -> Array:
    """The positive root x of busy * (exp(x) - 1) = x."""
    x = 1 - 2 * np.log(busy)
    for _ in range(_STEPS):
        grown = busy * np.exp(x)
        step = (grown - busy - x) / (grown - 1)
        x = x - step
        if np.all(np.abs(step) <= _EXACT * x):
            break
    return np.asarray(np.maximum(x, _LEAST), float)


def _together(busy: Array, decay: Array) -> Array:
    """The same with those that arrive later: the root y of y + LATER * busy * (exp(y) - 1) = decay."""
    y, later = decay, _LATER * busy
    for _ in range(_STEPS):
        grown = later * np.exp(y)
        step = (y + grown - later - decay) / (1 + grown)
        y = y - step
        if np.all(np.abs(step) <= _EXACT * y):
            break
    return np.asarray(np.maximum(y, 0.0), float)
