"""llm-d's workload variant autoscaler: the queueing model of its first versions, then the two analyzers of
saturation, by percentages and by tokens. One variant; docs/benchmarks.md has its settings.
"""

from __future__ import annotations

import math
from collections import deque
from functools import lru_cache

from headgate.simulator.autoscaling import Ledger, Replica, ScaledFleet
from headgate.simulator.fleet import Slo
from headgate.simulator.model import EngineConfig

SCALE_UP, SCALE_DOWN = 0.85, 0.7
"""Of the capacity in tokens: above the one more is required, below the other some is spare."""


class Queueing:
    """Replicas for the requests that ended in the last minute, by a birth-death queue with mean SLOs."""

    period_s = 60.0

    def __init__(self, engine: EngineConfig, slo: Slo) -> None:
        costs = engine.costs
        self._alpha_s, self._beta_s = costs.base_s, costs.per_decode_sequence_s
        self._gamma_s = costs.base_s + costs.per_start_s
        self._delta_s = costs.per_prefill_token_s
        self._sequences = engine.max_num_seqs
        self._slo = slo
        self._before = (0, 0, 0)
        self._rate_of = lru_cache(maxsize=512)(self._highest_rate)

    def desired(self, fleet: ScaledFleet) -> int:
        now = (fleet.ledger.finished, fleet.ledger.finished_prompt, fleet.ledger.finished_output)
        finished, prompt, output = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        if not finished:
            return max(fleet.current, 1)
        rate = self._rate_of(_rounded(prompt / finished), max(1, _rounded(output / finished)))
        if not rate:
            return fleet.current
        return max(1, math.ceil(finished / self.period_s / rate))

    def _highest_rate(self, prompt_tokens: int, output_tokens: int) -> float:
        """Requests per second with mean TTFT and TPOT within the SLO; 0 if there is none."""
        rates = [n / self._seconds(n, prompt_tokens, output_tokens) for n in range(1, self._sequences + 1)]
        low, high = rates[0] * 1e-3, max(rates) * 0.999
        if not self._holds(low, rates, prompt_tokens, output_tokens):
            return 0.0
        for _ in range(30):
            middle = (low + high) / 2
            if self._holds(middle, rates, prompt_tokens, output_tokens):
                low = middle
            else:
                high = middle
        return low

    def _seconds(self, n: float, prompt_tokens: int, output_tokens: int) -> float:
        return self._prefill_s(n, prompt_tokens) + (output_tokens - 1) * (self._alpha_s + self._beta_s * n)

    def _prefill_s(self, n: float, prompt_tokens: int) -> float:
        return self._gamma_s + self._delta_s * prompt_tokens * n

    def _holds(self, rate: float, rates: list[float], prompt_tokens: int, output_tokens: int) -> bool:
        most = 11 * self._sequences
        logs = [0.0]
        for n in range(most):
            logs.append(logs[-1] + math.log(rate) - math.log(rates[min(n + 1, self._sequences) - 1]))
        top = max(logs)
        weights = [math.exp(each - top) for each in logs]
        total = sum(weights)
        mean = sum(n * each for n, each in enumerate(weights)) / total
        served = sum(min(n, self._sequences) * each for n, each in enumerate(weights)) / total
        accepted = rate * (1 - weights[-1] / total)
        service_s, wait_s = served / accepted, max(0.0, (mean - served) / accepted)
        slope = self._delta_s * prompt_tokens + self._beta_s * (output_tokens - 1)
        fixed = self._gamma_s + self._alpha_s * (output_tokens - 1)
        n = min(max((service_s - fixed) / slope, 0.0), float(self._sequences))
        return (
            wait_s + self._prefill_s(n, prompt_tokens) <= self._slo.ttft_s
            and self._alpha_s + self._beta_s * n <= self._slo.tpot_s
        )


def _rounded(tokens: float) -> int:
    """To two digits, so that few sizes are computed."""
    if tokens < 10:
        return round(tokens)
    digits = 10 ** (int(math.log10(tokens)) - 1)
    return round(tokens / digits) * digits


class Percentages:
    """Analyzer v1: one replica more or less per pass, and none while replicas start."""

    period_s = 60.0

    def desired(self, fleet: ScaledFleet) -> int:
        current = fleet.current
        if fleet.starting or not fleet.ready:
            return current
        free = [each for each in fleet.ready if each.kv_usage < 0.8 and each.waiting < 5]
        count = len(free)
        kv, queue = sum(each.kv_usage for each in free), sum(each.waiting for each in free)
        if not free or 0.8 - kv / count < 0.1 or 5 - queue / count < 3:
            return current + 1
        if count >= 2 and 0.8 - kv / (count - 1) >= 0.1 and 5 - queue / (count - 1) >= 3:
            return max(current - 1, 1)
        return current


class Tokens:
    """Analyzer v2: tokens in use and queued against the capacity that was observed when queues were long."""

    period_s = 30.0

    def __init__(self, engine: EngineConfig) -> None:
        self._by_memory = math.floor(engine.kv_blocks * engine.block_size * 0.8)
        self._budget = engine.prefill_budget_tokens
        self._sequences = engine.max_num_seqs
        self._observed: dict[str, deque[float]] = {}
        self._before = (0, 0, 0)
        self._sizes = (0.0, 0.0)
        self._last = 0.0

    def desired(self, fleet: ScaledFleet) -> int:
        self.learn_sizes(fleet.ledger)
        if not fleet.ready:
            return fleet.current
        demand = self.demand(fleet) + len(fleet.held) * self.tokens_per_request
        capacity = self.capacity(fleet)
        if not capacity:
            return fleet.current
        required = max(0.0, demand / SCALE_UP - fleet.current * capacity)
        spare = max(0.0, len(fleet.ready) * capacity - demand / SCALE_DOWN)
        if required:
            return fleet.current + math.ceil(required / capacity)
        return max(1, fleet.current - math.floor(spare / capacity))

    @property
    def tokens_per_request(self) -> float:
        """Of those that ended between the last two calls of `learn_sizes`."""
        return sum(self._sizes)

    def demand(self, fleet: ScaledFleet) -> float:
        """Tokens in use and queued at replicas."""
        return sum(each.tokens_in_use + each.waiting * self.tokens_per_request for each in fleet.ready)

    def capacity(self, fleet: ScaledFleet) -> float:
        """Tokens of a replica: the median. Without replicas, the last one, or what its deployment tells."""
        if fleet.ready:
            capacities = sorted(self._capacity(each) for each in fleet.ready)
            middle = len(capacities) // 2
            self._last = (capacities[middle] + capacities[~middle]) / 2
        return self._last or self._derived()

    def _capacity(self, replica: Replica) -> float:
        _, output = self._sizes
        bucket = "short" if output < 100 else "medium" if output < 500 else "long"
        seen = self._observed.setdefault(bucket, deque(maxlen=10))
        if replica.waiting >= 5 and replica.tokens_in_use > 0:
            seen.append(replica.tokens_in_use)
            return min(self._by_memory, replica.tokens_in_use)
        if seen:
            return min(self._by_memory, sum(seen) / len(seen))
        return self._derived()

    def _derived(self) -> float:
        prompt, output = self._sizes
        if output <= 0:
            return self._by_memory
        batch = min(self._budget * output / (prompt + output), self._sequences)
        return min(self._by_memory, batch * (prompt + output / 2))

    def learn_sizes(self, ledger: Ledger) -> None:
        """Take in the lengths of requests that ended meanwhile."""
        now = (ledger.finished, ledger.finished_prompt, ledger.finished_output)
        finished, prompt, output = (after - before for after, before in zip(now, self._before, strict=True))
        if finished:
            self._before = now
            self._sizes = (prompt / finished, output / finished)
