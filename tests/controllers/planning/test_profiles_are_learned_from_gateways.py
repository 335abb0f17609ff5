"""A wrong profile is corrected by what gateways tell of the engines' times."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from world_of_scaling import eventually

from headgate import api
from headgate.api import marks
from headgate.controllers.pages import add_planning_figures
from headgate.controllers.planning import learning
from headgate.controllers.planning.gateway_loads import GatewayLoads
from headgate.controllers.planning.loads import Demand
from headgate.observe.signals import PoolLoad
from headgate.planning import load
from headgate.planning.queueing import analyze
from headgate.planning.replica import Profile, Replica
from headgate.requests.stream_times import Times
from headgate.telemetry import Registry

TRUE = Profile(alpha_ms=12, beta_ms=0.25, gamma_ms=20, delta_ms=0.03)
PROMPT, OUTPUT, REQUESTS = 200, 150, 40


def page(share: float) -> dict[str, Any]:
    """The signals of one true engine, at a share of the most that it can do."""
    replica = Replica(profile=TRUE, input_tokens=PROMPT, output_tokens=OUTPUT, max_batch=64, max_queue=640)
    rate = replica.max_rate_per_s * share
    mean = analyze(replica, rate)
    return {
        "arrivals": rate,
        "prompt_tokens": rate * PROMPT,
        "output_tokens": rate * OUTPUT,
        "timed_requests": REQUESTS,
        "ttft_sum_s": REQUESTS * mean.ttft_ms / 1000,
        "timed_tokens": REQUESTS * (OUTPUT - 1),
        "tokens_sum_s": REQUESTS * (OUTPUT - 1) * mean.itl_ms / 1000,
        "idle_s": None,
    }


def parameters(planning: Any) -> dict[str, float]:
    """What the metric tells as learned."""
    registry = Registry()
    add_planning_figures(registry, planning.controller.figures)
    lines = registry.page("")[0].decode().splitlines()
    found = [each for each in lines if "planning_profile{" in each and 'source="learned"' in each]
    return {each.split('parameter="')[1].split('"')[0]: float(each.rsplit(" ", 1)[1]) for each in found}


async def test_a_wrong_profile_is_corrected(planning: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learned one is shown, kept beside the object, and planned with."""
    monkeypatch.setattr(load, "WINDOW_S", 1e-6)  # each reading is a minute
    monkeypatch.setattr(load, "_WINDOWS", 1)
    monkeypatch.setattr(learning, "STEADY_S", 0.0)
    monkeypatch.setattr(learning, "OBSERVED_S", 0.0)
    await planning.configure()
    await planning.world.workload("web")
    await planning.world.server("web", **page(0.3))
    decode, prefill = {"alpha": "20.58", "beta": "0.41"}, {"gamma": "5.2", "delta": "0.1"}
    profile = {"maxBatchSize": 64, "perfParms": {"decodeParms": decode, "prefillParms": prefill}}
    await planning.variant(variantProfile=profile)
    async with planning.running() as controller:
        await planning.plans(3)
        assert not parameters(planning)
        looks = iter(range(10_000))

        async def is_learned() -> bool:
            planning.world.signals["web"] = page(0.05 + 0.6 * (next(looks) % 8) / 8)
            passes = controller.figures.passes
            await asyncio.sleep(0.15)  # until the gateway has told it

            async def has_run() -> bool:
                controller._due.set()
                return controller.figures.passes >= passes + 2

            await eventually(has_run)
            return marks.LEARNED_PROFILE in (await planning.get()).metadata.annotations

        await eventually(is_learned)
        kept = json.loads((await planning.get()).metadata.annotations[marks.LEARNED_PROFILE])
        shown = parameters(planning)
        for batch in (2, 20):
            itl_ms = TRUE.alpha_ms + TRUE.beta_ms * batch
            assert kept["alpha"] + kept["beta"] * batch == pytest.approx(itl_ms, rel=0.1)
            assert shown["alpha"] + shown["beta"] * batch == pytest.approx(itl_ms, rel=0.1)
        planning.world.signals["web"] = page(0.3)
        await planning.plans(1)


def demand(*shares: float) -> Demand:
    pools = {api.ObjectRef("ModelServer", "ns", str(index)): share for index, share in enumerate(shares)}
    return Demand("llama", "ns", pools, replicas=1)


@pytest.mark.parametrize(("shares", "ttft_ms"), [((1, 1), 200.0), ((1, 0.5), 0.0)])
def test_times_are_those_of_own_pods_alone(shares: tuple[float, ...], ttft_ms: float) -> None:
    """Of all pools that reach them; unknown where requests are at Pods of others as well."""
    known = {
        "0": PoolLoad(is_known=True, metrics={"headgate:arrivals": 1}, times=Times(30, 3.0, 300, 3.0, 1)),
        "1": PoolLoad(is_known=True, metrics={"headgate:arrivals": 1}, times=Times(10, 5.0, 100, 5.0, 2)),
    }
    loads = GatewayLoads(SimpleNamespace(of=lambda pool: known[pool.name]))  # type: ignore[arg-type]
    found = loads.now(demand(*shares))
    assert isinstance(found, load.Load)
    assert found.ttft_ms == pytest.approx(ttft_ms)
    assert found.itl_ms == pytest.approx(ttft_ms / 10)
    if ttft_ms:
        assert (found.timed_requests, found.timed_tokens, found.queued_requests) == (40, 400, 3)
