"""What the gateway would tell of the fleet, by the names that it has in an AutoscalingPolicy.

The figures are those of `GET /signals`: a gateway knows requests in flight, and predicts work from tokens and
learned rates. Here the rates are those of the engine; how long responses are is learned from earlier ones.
The gateway's own code counts arrivals and adds up the work.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.autoscaling import PodSample, Total
from headgate.fleet.answer_sizes import USUAL_TOKENS
from headgate.requests.pool_signals import MAX_BATCH, TokenCosts
from headgate.simulator.autoscaling.replica import Replica
from headgate.simulator.autoscaling.scaled_fleet import ScaledFleet
from headgate.simulator.autoscaling.work import Ledger


def totals(fleet: ScaledFleet) -> Mapping[str, Total]:
    """The signals of the pool."""
    running = sum(each.requests for each in fleet.ready)
    waiting = len(fleet.held)
    recent = fleet.traffic.recent(fleet.now)
    costs, output_tokens = _costs(fleet), expected_output(fleet.ledger)
    work_s = costs.work_seconds(
        (recent.prompt_tokens_per_s * recent.surge, recent.arrivals_per_s * recent.surge * output_tokens),
        (sum(work.uncached_tokens for work in fleet.held), waiting * output_tokens),
        sum(each.queued_tokens for each in fleet.ready) * costs.prompt_s,
    )
    found = {
        "headgate:requests_running": Total(running),
        "headgate:requests_waiting": Total(waiting),
        "headgate:requests_in_flight": Total(running + waiting),
        "headgate:arrivals": Total(recent.arrivals_per_s),
        "headgate:work_seconds": Total(work_s),
    }
    if fleet.ready:
        usage = sum(each.kv_usage for each in fleet.ready) / len(fleet.ready)
        found["headgate:kv_usage"] = Total(usage, is_ratio=True)
    return found


def _costs(fleet: ScaledFleet) -> TokenCosts:
    engine, ledger = fleet.engine, fleet.ledger
    costs = engine.costs
    tokens = 0.0
    if ledger.finished:
        tokens = (ledger.finished_prompt + ledger.finished_output / 2) / ledger.finished
    batch = min(engine.kv_blocks * engine.block_size / tokens, MAX_BATCH) if tokens else MAX_BATCH
    return TokenCosts(
        costs.per_prefill_token_s + costs.base_s / engine.prefill_budget_tokens,
        costs.base_s / batch + costs.per_decode_sequence_s + tokens * costs.per_kv_token_s,
    )


def expected_output(ledger: Ledger) -> float:
    """Tokens of a response, as learned from those that ended."""
    return ledger.finished_output / ledger.finished if ledger.finished else USUAL_TOKENS


def pods(fleet: ScaledFleet, names: Mapping[str, float]) -> list[PodSample]:
    """The replicas that are wanted, ready or not, with the metrics of engines."""
    ready = [
        PodSample(each.name, is_ready=True, values=_values(each), created_at=names.get(each.name))
        for each in fleet.ready
    ]
    starting = [
        PodSample(name, is_ready=False, values={}, created_at=at_s - fleet.cold_start_s)
        for at_s, name in fleet.starting
    ]
    return ready + starting


def _values(replica: Replica) -> Mapping[str, float]:
    return {
        "kthena:num_requests_running": float(replica.running),
        "kthena:num_requests_waiting": float(replica.waiting),
        "kthena:kv_cache_usage_perc": replica.kv_usage,
    }


NAMES = (
    "headgate:requests_running",
    "headgate:requests_waiting",
    "headgate:requests_in_flight",
    "headgate:arrivals",
    "headgate:work_seconds",
    "headgate:kv_usage",
    "kthena:num_requests_running",
    "kthena:num_requests_waiting",
    "kthena:kv_cache_usage_perc",
)
"""Every metric of a replay."""
