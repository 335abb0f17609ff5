"""Planned shares of variants in one pool are told to gateways by an annotation of the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from world_of_scaling import eventually

from headgate import api
from headgate.api import marks, weights
from headgate.api.meta import LabelSelector
from headgate.controllers.autoscaling.workloads import ScalableDeployment
from headgate.controllers.planning import shares
from headgate.controllers.planning.shares import Member

FAST = {
    "maxBatchSize": 64,
    "perfParms": {
        "decodeParms": {"alpha": "6.958", "beta": "0.042"},
        "prefillParms": {"gamma": "5.2", "delta": "0.02"},
    },
}
ARRIVALS = 17.2
"""A little more than one fast replica takes."""
MODEL = ("llama", "llm")


def member(name: str, share: float | None, replicas: int = 1, model: tuple[str, str] = MODEL) -> Member:
    data = {
        "metadata": {"name": name, "namespace": "llm"},
        "spec": {"selector": {"matchLabels": {"app": name}}},
    }
    return Member(msgspec.convert(data, ScalableDeployment), model, share, replicas)


def told(*members: Member) -> Mapping[str, float]:
    return {each.selector.match_labels["app"]: each.weight for each in shares.weights_of(members)}


def test_a_weight_is_for_each_replica() -> None:
    """It is the planned share, relative to that of the mean replica."""
    assert told(member("a", 0.8, 2), member("b", 0.2, 2)) == {"a": 1.6, "b": 0.4}
    assert told(member("a", 0.9, 1), member("b", 0.1, 3)) == {"a": 3.6, "b": 0.133}


def test_a_model_with_one_variant_has_no_weights() -> None:
    """Also if the others are planned to have no replicas."""
    assert told() == {}
    assert told(member("a", 1.0, 3)) == {}
    assert told(member("a", 1.0, 3), member("b", 0.0, 0)) == {}


@pytest.mark.parametrize("other", [member("b", 1.0), member("b", 1.0, model=("other", "llm"))])
def test_shares_of_different_requests_are_no_weights(other: Member) -> None:
    """Variants of two models or classes in one pool: nobody knows which requests are whose."""
    assert told(member("a", 1.0), other) == {}


def test_only_clear_changes_are_written() -> None:
    """A tenth in the ratio of two weights, or other variants."""
    before = weights.written(shares.weights_of([member("a", 0.8), member("b", 0.2)]))
    for share, is_clear in ((0.8, False), (0.81, False), (0.79, False), (0.83, True), (0.7, True)):
        wanted = shares.weights_of([member("a", share), member("b", 1 - share)])
        assert shares.is_clear(before, wanted) is is_clear
    assert not shares.is_clear(before, shares.weights_of([member("a", 0.8, 5), member("b", 0.2, 5)]))
    assert shares.is_clear(before, shares.weights_of([member("a", 0.8), member("c", 0.2)]))
    assert shares.is_clear("nonsense", wanted)
    assert shares.is_clear(None, wanted)


async def pool_of_two(planning: Any, annotations: Mapping[str, str] | None = None) -> None:
    """Two variants whose Pods are in one ModelServer, for more requests than one replica takes."""
    await planning.configure()
    world = planning.world
    for name in ("fast", "slow"):
        await world.workload(name)
        path = world.client.path_of(api.Deployment.resource, name, world.namespace)
        labels = [{"op": "add", "path": "/spec/template/metadata/labels/model", "value": "llama"}]
        await world.client.ask("PATCH", path, labels, content_type="application/json-patch+json")
    world.signals["llama"] = {"arrivals": ARRIVALS, "idle_s": None}
    spec = {
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {"model": "llama"}},
        "workloadPort": {"port": 8000},
    }
    await world.put(api.ModelServer.resource, "llama", spec, annotations=annotations)
    await planning.variant("fast", "H100", variantProfile=FAST)
    await planning.variant("slow", "A100")


async def weights_in(planning: Any) -> Mapping[str, float]:
    found = weights.of_pool(await planning.world.notes("llama"))
    return {each.selector.match_labels["app"]: each.weight for each in found}


async def test_the_pool_has_the_planned_weights(planning: Any) -> None:
    """While both variants are planned to run, written once; they go with one of the variants."""
    await pool_of_two(planning)
    async with planning.running() as controller:

        async def is_told() -> bool:
            return (await weights_in(planning)).keys() == {"fast", "slow"}

        await eventually(is_told)
        found = await weights_in(planning)
        assert found["fast"] > 10 * found["slow"]
        [known] = weights.of_pool(await planning.world.notes("llama"))[:1]
        assert known.selector == LabelSelector(match_labels={"app": "fast"})
        world = planning.world
        before = await world.client.get(api.ModelServer, "llama", world.namespace)
        passes = controller.figures.passes
        await planning.config("model-scale-to-zero-config", {"model.x": "{modelID: other}"})

        async def is_over() -> bool:
            return controller.figures.passes > passes + 1

        await eventually(is_over)
        after = await world.client.get(api.ModelServer, "llama", world.namespace)
        assert after.metadata.resource_version == before.metadata.resource_version
        await world.client.delete(api.VariantAutoscaling, "slow", world.namespace)

        async def is_gone() -> bool:
            return marks.WEIGHTS not in await world.notes("llama")

        await eventually(is_gone)


async def test_weights_of_somebody_else_stay(planning: Any) -> None:
    """Whoever writes the annotation by hand has the last word."""
    text = '[{"weight": 3, "selector": {"matchLabels": {"app": "fast"}}}]'
    await pool_of_two(planning, {marks.WEIGHTS: text})
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded", "fast")
        await planning.world.client.delete(api.VariantAutoscaling, "slow", planning.world.namespace)
        await asyncio.sleep(1)
        assert (await planning.world.notes("llama"))[marks.WEIGHTS] == text
