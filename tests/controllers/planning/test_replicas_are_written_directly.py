"""headgate.dev/actuate: direct has the controller write replicas: up at once, and down after a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world_of_scaling import eventually

from headgate import api
from headgate.api import horizontal
from headgate.controllers.planning.actuating import Window

DIRECT = {"headgate.dev/actuate": "direct"}


async def test_replicas_go_up_at_once_and_down_after_the_window(planning: Any) -> None:
    """Without the annotation, nobody writes them."""
    await planning.configure(GLOBAL_OPT_INTERVAL="1s")
    world = planning.world
    await world.workload()
    await world.server(arrivals=3.0, idle_s=None)
    await planning.variant()
    async with planning.running(window_s=4.0):
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        wanted = (await planning.get()).status.desired_optimized_alloc.num_replicas
        assert wanted > 1
        assert await world.replicas() == 1
        await _annotate(planning, DIRECT)
        await world.gets(wanted)
        await planning.says("Actuated", "True", "Direct")
        world.signals["web"]["arrivals"] = 0.1
        fewer = (await planning.plans(1)).status.current_alloc.num_replicas
        assert fewer in (wanted, 1)
        await world.gets(1)


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "AutoscalingPolicyBinding"])
async def test_others_that_scale_are_left_alone(planning: Any, kind: str) -> None:
    """The condition names them, and replicas are written once they are gone."""
    await planning.configure()
    world = planning.world
    await world.workload(totals={"load": 1.0})
    if kind == "HorizontalPodAutoscaler":
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"scaleTargetRef": target, "maxReplicas": 5}
        await world.put(horizontal.HorizontalPodAutoscaler.resource, "other", spec)
    else:
        await world.policy(load=1)
        await world.binding("other")
        await _next_second(planning)
    await world.server(arrivals=3.0, idle_s=None)
    await planning.variant(annotations=DIRECT)
    async with planning.running():
        told = await planning.says("Actuated", "False", "Conflict")
        assert f"{kind} {world.namespace}/other decides the replicas of Deployment" in told
        obj = await planning.get()
        assert obj.status.actuation.applied is False
        wanted = obj.status.desired_optimized_alloc.num_replicas
        assert wanted > 1
        assert await world.replicas() == 1
        rival = api.AutoscalingPolicyBinding if "Binding" in kind else horizontal.HorizontalPodAutoscaler
        await world.client.delete(rival, "other", world.namespace)
        await world.gets(wanted)
        await planning.says("Actuated", "True", "Direct")


async def test_another_value_is_refused(planning: Any) -> None:
    """The condition says what to write, and goes with the annotation."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=3.0, idle_s=None)
    await planning.variant(annotations={"headgate.dev/actuate": "yes"})
    async with planning.running():
        assert '"yes" is not "direct"' in await planning.says("Actuated", "False", "InvalidAnnotation")
        await _annotate(planning, {"headgate.dev/actuate": None})

        async def is_gone() -> bool:
            return all(each.type != "Actuated" for each in (await planning.get()).status.conditions)

        await eventually(is_gone)
        assert await planning.world.replicas() == 1


@given(st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 20)), min_size=1, max_size=40))
def test_replicas_are_the_most_of_the_window(passes: list[tuple[float, int]]) -> None:
    """Never fewer than wanted, never more than the most that were wanted within the window."""
    window, now, current = Window(), 1000.0, 3
    wanted_at = [(now, current)]
    for after_s, wanted in passes:
        now += after_s
        wanted_at.append((now, wanted))
        replicas = window.after(wanted, current, now, 60.0)
        within = [each for at, each in wanted_at[1:] if at > now - 60.0]
        first = [3] if passes[0][0] + 1000.0 > now - 60.0 else []
        assert wanted <= replicas <= max(within + first)
        assert replicas == max(within + first) or replicas == max(current, wanted)
        current = replicas


async def _annotate(planning: Any, annotations: dict[str, str | None]) -> None:
    patch = {"metadata": {"annotations": annotations}}
    await planning.world.client.patch(api.VariantAutoscaling, "web", planning.world.namespace, patch)


async def _next_second(planning: Any) -> None:
    """Until objects that are created now are younger than those before: ages are in seconds."""
    [before] = await planning.world.client.list(api.AutoscalingPolicyBinding, planning.world.namespace)

    async def is_later() -> bool:
        await planning.config("clock", {})
        made = await planning.world.client.get(api.ConfigMap, "clock", planning.world.namespace)
        return made.metadata.creation_timestamp > before.metadata.creation_timestamp

    await eventually(is_later)
