"""What plans cost on public traces: two variants of one model, planned for each five minutes.

All are sized for the same percentile of TTFT, so that attainment is equal by the model; the cost differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from autoscaling_contest import traffic
from headgate.planning import Demand, Option, Problem, Profile, Replica, Sizing, Targets, plan, size
from headgate.planning.sizing import fewest
from headgate.simulator.autoscaling import Work
from headgate.simulator.fleet import Slo
from headgate.simulator.model.profiles import PROFILES

SLOT_S: Final = 300.0
VARIANTS: Final = {"8b-h100": 300.0, "8b-l40s": 100.0}
"""Cents per hour."""
BATCH: Final = 256


def costs(folder: Path) -> list[dict[str, Any]]:
    """Dollars of a trace, by planner."""
    rows = []
    for name, source in traffic.SOURCES.items():
        trace = traffic.read(folder, name, source.scales[0])
        totals = {"joint": 0.0, "best single": 0.0, "each variant alone": 0.0}
        hours = SLOT_S / 3600
        unserved = 0
        for slot in _slots(trace.works):
            found = _planned(slot, trace.slo)
            if found is None:
                unserved += 1
                continue
            for key, cost in found.items():
                totals[key] += cost * hours / 100
        rows.append(
            {"trace": trace.name}
            | {f"{key} $": round(total, 2) for key, total in totals.items()}
            | {"slots that no variant can serve": unserved}
        )
    return rows


def _slots(works: Sequence[Work]) -> list[list[Work]]:
    slots: dict[int, list[Work]] = {}
    for work in works:
        slots.setdefault(int(work.at_s // SLOT_S), []).append(work)
    return list(slots.values())


def _planned(works: Sequence[Work], slo: Slo) -> dict[str, float] | None:
    """Cents per hour."""
    rate_per_s = len(works) / SLOT_S
    prompt = sum(each.uncached_tokens for each in works) / len(works)
    response = max(1.0, sum(each.output_tokens for each in works) / len(works))
    targets = Targets(ttft_ms=1000 * slo.ttft_s, itl_ms=1000 * slo.tpot_s)
    options = []
    for name, cost in VARIANTS.items():
        sized = size(_replica(name, prompt, response), targets)
        if isinstance(sized, Sizing):
            options.append(
                Option(
                    server=name,
                    accelerator=name,
                    type=name,
                    units=1,
                    cost=cost,
                    rate_per_s=sized.capacity_per_s,
                )
            )
    if not options:
        return None
    demand = Demand(name="m", rate_per_s=rate_per_s, priority=1, options=tuple(options))
    alone = [each.cost * fewest(rate_per_s, each.rate_per_s) for each in options]
    joint = plan(Problem(demands=(demand,)))
    return {"joint": joint.cost, "best single": min(alone), "each variant alone": sum(alone)}


def _replica(name: str, prompt: float, response: float) -> Replica:
    costs = PROFILES[name].config.costs
    context = prompt + response / 2
    profile = Profile(
        alpha_ms=1000 * costs.base_s,
        beta_ms=1000 * (costs.per_decode_sequence_s + costs.per_kv_token_s * context),
        gamma_ms=1000 * costs.base_s,
        delta_ms=1000 * (costs.per_prefill_token_s + costs.per_start_s / prompt),
    )
    batch = max(1, min(BATCH, int(PROFILES[name].config.kv_blocks * 16 / (prompt + response))))
    return Replica(
        profile=profile, input_tokens=prompt, output_tokens=response, max_batch=batch, max_queue=10 * batch
    )
