"""What is desired follows no noise: the whole way from arrivals to decisions, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from headgate import api
from headgate.controllers.planning import deciding
from headgate.controllers.planning.collecting import Loads
from headgate.controllers.planning.deciding import Member
from headgate.controllers.planning.loads import Demand
from headgate.observe.signals import PoolLoad
from headgate.planning import Sizer, assembling, config_maps, solving
from headgate.planning.load import Load
from headgate.planning.variants import Variant

POOL = api.ObjectRef("ModelServer", "ns", "web")
WINDOW_S, LOOK_S, PASS_S = 15, 5, 60
COSTS = {name: f'{{"device": "{name}", "cost": "{cost}"}}' for name, cost in (("A100", 40), ("H100", 90))}
CLASSES = {
    "premium.yaml": "{name: Premium, priority: 1, data: [{model: llama, slo-tpot: 24, slo-ttft: 500}]}"
}


def variant(name: str, accelerator: str, alpha: str) -> Variant:
    spec = {
        "modelID": "llama",
        "variantID": f"llama-{accelerator}-1",
        "accelerator": accelerator,
        "acceleratorCount": 1,
        "sloClassRef": {"name": "service-classes-config", "key": "premium.yaml"},
        "variantProfile": {
            "maxBatchSize": 8,
            "perfParms": {
                "decodeParms": {"alpha": alpha, "beta": "0.41"},
                "prefillParms": {"gamma": "5.2", "delta": "0.1"},
            },
        },
    }
    metadata = {"name": name, "namespace": "ns"}
    return Variant.of(msgspec.convert({"metadata": metadata, "spec": spec}, api.VariantAutoscaling))


@pytest.mark.parametrize("rate", [0.9, 3.0, 17.0])
async def test_no_reversal_beyond_one_an_hour(monkeypatch: Any, rate: float) -> None:
    """Poisson arrivals at a constant rate, for three hours, with two variants that share them. Replicas are
    what was desired, at once, as an HPA without stabilization has them."""
    now, hours, random = 0.0, 3, np.random.default_rng(7)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    told = PoolLoad(is_known=True)
    loads = Loads(SimpleNamespace(of=lambda _: told))  # type: ignore[arg-type]
    demand = Demand("llama", "ns", {POOL: 1.0}, 1, 100.0)
    variants = [variant("a", "A100", "20.58"), variant("h", "H100", "10.3")]
    configuration = config_maps.read(COSTS, CLASSES, None, None)
    replicas = {each.key: 1 for each in variants}
    arrived, plans, sizer = random.poisson(rate, WINDOW_S).tolist(), [], Sizer()
    is_due = True
    for second in range(LOOK_S, hours * 3600, LOOK_S):
        now = float(second)
        arrived += random.poisson(rate, LOOK_S).tolist()
        arrivals = sum(arrived[-WINDOW_S:]) / WINDOW_S
        metrics = {
            "headgate:arrivals": arrivals,
            "headgate:prompt_tokens": 200 * arrivals,
            "headgate:output_tokens": 150 * arrivals,
        }
        told = PoolLoad(is_known=True, metrics=metrics)
        is_due = is_due or second % PASS_S == 0 or await loads.has_risen()
        if not is_due:
            continue
        is_due = False
        [load] = (await loads.collect([demand])).values()
        assert isinstance(load, Load)
        system = assembling.assemble(
            variants, configuration, replicas=replicas, loads={demand.group: load}, in_use={demand.group}
        )
        decisions = system.decisions(solving.exactly(system.system, sizer=sizer))
        members = [Member(each, replicas[each.key], replicas[each.key]) for each in variants]
        planned = deciding.planned(members, decisions)
        replicas = {key: each.replicas for key, each in planned.items()}
        plans.append(tuple(replicas.values()))
    for own in zip(*plans, strict=True):
        steps = [after - before for before, after in itertools.pairwise(own[10:])]
        ways = [step > 0 for step in steps if step]
        assert sum(before != after for before, after in itertools.pairwise(ways)) <= hours
