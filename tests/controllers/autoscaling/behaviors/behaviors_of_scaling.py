"""What autoscaling does, as anybody sees it who writes objects and reads replicas and statuses.

The same behaviors are tested on the embedded API server and on a real control plane. Numbers such as A4 are
those of the reference cases of the autoscaler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from world_of_scaling import ANY_SPEED, AT_ONCE, SETTINGS, World, controlling, eventually

from headgate import api
from headgate.api import horizontal, llmd, marks

Behavior = Callable[[World], Awaitable[None]]
BEHAVIORS: list[Behavior] = []


def behavior(test: Behavior) -> Behavior:
    BEHAVIORS.append(test)
    return test


# --- reference cases ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Replicas and values of Pods, and the replicas that follow."""

    current: int
    expected: int
    values: Mapping[str, Any] = field(default_factory=dict)
    targets: Mapping[str, Any] = field(default_factory=lambda: {"load": 1})
    least: int = 1
    most: int = 1000
    ready: int | None = None
    behavior: Mapping[str, Any] = field(default_factory=lambda: ANY_SPEED)
    tolerance: int = 0
    is_first_step: bool = False
    """Whether more steps follow, as the load stays."""


def down(instances: int, percent: int, select: str = "Or") -> dict[str, Any]:
    """Scaling down by so many in half an hour: in one step, as far as tests live."""
    limit = {"instances": instances, "percent": percent, "period": "30m", "selectPolicy": select}
    return {"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": {**limit, "stabilizationWindow": "0s"}}


def up(instances: int, percent: int, select: str = "Or") -> dict[str, Any]:
    limit = {"instances": instances, "percent": percent, "period": "30m", "selectPolicy": select}
    return {"scaleUp": {"stablePolicy": {**limit, "stabilizationWindow": "0s"}}, "scaleDown": AT_ONCE}


def panic(percent: int) -> dict[str, Any]:
    policy = {"percent": percent, "period": "30m", "panicThresholdPercent": 200, "panicModeHold": "30m"}
    return {"scaleUp": {"stablePolicy": AT_ONCE, "panicPolicy": policy}, "scaleDown": AT_ONCE}


CASES = {
    "A1 below the minimum": Case(4, 5, {"load": 1.0}, least=5, most=10, is_first_step=True),
    "A2 above the maximum": Case(12, 10, {"load": 1.0}, least=5, most=10),
    "A3 no metric": Case(4, 4),
    "A4 the largest metric": Case(
        3,
        300,
        {"a": [6.0, 6.0, 6.0], "b": [500.0, 500.0, 500.0], "c": [20.0, 20.0, 20.0]},
        {"a": 3, "b": 5, "c": 4},
        is_first_step=True,
    ),
    "A10 unready Pods would turn the direction": Case(58, 58, {"load": [3.9] * 8}, ready=8),
    "A11 missing Pods when it goes down": Case(10, 6, {"load": [0.5] * 8}, is_first_step=True),
    "A12 missing Pods when it goes up": Case(10, 24, {"load": [2.9] * 8}, is_first_step=True),
    "A16 down by the larger of two": Case(10, 6, {"load": 0.5}, behavior=down(1, 40)),
    "A17 down by the smaller of two": Case(10, 9, {"load": 0.5}, behavior=down(1, 40, "And")),
    "A21 up by the larger of two": Case(5, 10, {"load": 4.0}, behavior=up(3, 100)),
    "A21 up by the smaller of two": Case(5, 8, {"load": 4.0}, behavior=up(3, 100, "And")),
    "A25 panic": Case(10, 20, {"load": 3.0}, behavior=panic(100)),
    "A38 one ready Pod and one that is not": Case(2, 2, {"load": [1.4]}, ready=1),
    "tolerance": Case(10, 10, {"load": 1.09}, tolerance=10),
    "beyond the tolerance": Case(10, 12, {"load": 1.2}, tolerance=10, is_first_step=True),
}


async def check(world: World, case: Case) -> None:
    """A case holds."""
    await world.workload(replicas=case.current, values=dict(case.values), ready=case.ready)

    async def are_there() -> bool:
        pods = world.pods[world.namespace, "Deployment", "web"]
        known = await world.client.list(api.Pod, world.namespace, label_selector="app=web")
        ready = case.current if case.ready is None else case.ready
        return len(pods.order) == case.current and sum(pod.ready for pod in known) == ready

    await eventually(are_there)
    await world.policy(behavior=case.behavior, tolerancePercent=case.tolerance, **case.targets)
    await world.binding(least=case.least, most=case.most)
    async with controlling(world.client):
        if case.is_first_step:
            await world.gets(case.expected)
        else:
            await world.decides(case.expected)
            await world.has(case.expected)


# --- workloads ------------------------------------------------------------------------------------------


async def _follows(world: World, kind: str) -> None:
    pods = await world.workload(kind=kind, totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding(kind=kind, most=8)
    async with controlling(world.client):
        await world.has(3, kind=kind)
        pods.totals["load"] = 20.0
        await world.has(8, kind=kind)
        said = await world.decides(8)
        assert [each["kind"] for each in said["targets"]] == [kind]
        pods.totals["load"] = 2.0
        await world.has(2, kind=kind)


@behavior
async def a_deployment_follows_its_load(world: World) -> None:
    """Up, to its bound, and down again."""
    await _follows(world, "Deployment")


@behavior
async def a_stateful_set_follows_its_load(world: World) -> None:
    """Up, to its bound, and down again."""
    await _follows(world, "StatefulSet")


@behavior
async def a_leader_worker_set_follows_its_load(world: World) -> None:
    """By the leaders of its groups."""
    await _follows(world, "LeaderWorkerSet")


@behavior
async def replicas_are_written_through_the_scale_subresource(world: World) -> None:
    """So that the write is in the managed fields of the scaler alone, and nothing else is touched."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(3)
    path = world.client.path_of(api.Deployment.resource, "web", world.namespace)
    found = await world.client.get_manifest(api.Deployment.resource, "web", world.namespace)
    [ours] = [each for each in found["metadata"]["managedFields"] if each["manager"] == "headgate-autoscaler"]
    assert (ours["subresource"], ours["operation"]) == ("scale", "Update"), path
    assert ours["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


@behavior
async def nothing_is_written_while_nothing_changes(world: World) -> None:
    """A36: neither replicas nor a status."""
    await world.workload(replicas=3, totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.decides(3)
        await world.says("MetricsAvailable", "True", "Measured")
        await asyncio.sleep(3 * SETTINGS.period_s)
        resource = api.AutoscalingPolicyBinding.resource
        kinds = ((api.Deployment.resource, "web"), (resource, "b"))
        before = [await world.client.get_manifest(of, name, world.namespace) for of, name in kinds]
        await asyncio.sleep(10 * SETTINGS.period_s)
        after = [await world.client.get_manifest(of, name, world.namespace) for of, name in kinds]
    versions = [
        (old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"])
        for old, new in zip(before, after, strict=True)
    ]
    assert versions[1][0] == versions[1][1]
    assert before[0]["metadata"]["generation"] == after[0]["metadata"]["generation"]


@behavior
async def one_name_in_two_namespaces(world: World) -> None:
    """A34: each is scaled by its own Pods."""
    other = await world.new_namespace()
    for namespace, total in ((world.namespace, 2.0), (other, 5.0)):
        await world.workload(totals={"load": total}, namespace=namespace)
        await world.policy(load=1, namespace=namespace)
        await world.binding(namespace=namespace)
    async with controlling(world.client):
        await world.has(2)
        await world.has(5, namespace=other)


@behavior
async def several_targets_by_their_cost(world: World) -> None:
    """A31: the cheaper one gets its maximum before the dearer one gets more than its minimum."""
    await world.workload("h100", 2, totals={"load": 2.0})
    await world.workload("a100", 3, totals={"load": 3.0})
    await world.policy(load=1)
    params = [
        world.target("h100", least=1, most=4, cost=10),
        world.target("a100", least=1, most=3, cost=5),
    ]
    spec = {
        "policyRef": {"name": "p"},
        "optimizerConfiguration": {"params": params, "costExpansionRatePercent": 100},
    }
    await world.put(api.AutoscalingPolicyBinding.resource, "b", spec)
    async with controlling(world.client):
        await world.has(2, "h100")
        await world.has(3, "a100")
        world.pods[world.namespace, "Deployment", "h100"].totals["load"] = 0.5
        world.pods[world.namespace, "Deployment", "a100"].totals["load"] = 1.5
        await world.has(1, "h100")
        await world.has(1, "a100")
        said = await world.decides(2)
        assert [each["name"] for each in said["targets"]] == ["h100", "a100"]


@behavior
async def several_targets_stay_within_their_bounds(world: World) -> None:
    """A32 and A33: no load leaves the sum of the minima, and any load gives at most that of the maxima."""
    await world.workload("a", 1, values={"load": 100.0})
    await world.workload("b", 2, values={"load": 100.0})
    await world.policy(load=1)
    params = [world.target("a", most=5, cost=10), world.target("b", least=2, most=4, cost=20)]
    spec = {"policyRef": {"name": "p"}, "optimizerConfiguration": {"params": params}}
    await world.put(api.AutoscalingPolicyBinding.resource, "b", spec)
    async with controlling(world.client):
        await world.has(5, "a")
        await world.has(4, "b")
        for pods in world.pods.values():
            pods.values["load"] = 0.0
        await world.has(1, "a")
        await world.has(2, "b")


# --- what gateways tell ---------------------------------------------------------------------------------


@behavior
async def a_workload_follows_what_gateways_tell(world: World) -> None:
    """A15: 44.9 with a target of 3 asks for less than 51 % more than ten replicas, but for more than 49 %."""
    await world.workload(replicas=10)
    await world.server(work_seconds=44.9)
    await world.policy(tolerancePercent=51, **{"headgate:work_seconds": 3})
    await world.binding()
    async with controlling(world.client, world.port):
        await world.says("Ready", "True", "Scaling")
        await world.has(10)
        await world.policy(tolerancePercent=49, **{"headgate:work_seconds": 3})
        await world.has(15)


@behavior
async def a_workload_goes_to_zero_and_comes_back(world: World) -> None:
    """When no request came for the grace period, and as soon as one waits. Gateways learn that they may hold
    requests, and unlearn it with the binding."""
    await world.workload(replicas=1)
    await world.server(idle_s=None, requests_running=1)
    await world.policy(**{"headgate:requests_in_flight": 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "5s"})
    async with controlling(world.client, world.port):
        await world.has(1)
        world.signals["web"] = {"idle_s": 4.0}
        await world.has(1)
        world.signals["web"] = {"idle_s": 6.0}
        await world.has(0)
        assert float((await world.notes())[marks.SCALE_FROM_ZERO]) > 0
        world.signals["web"] = {"requests_waiting": 1, "waiting_for_endpoints": 1}
        await world.has(1)
        await world.client.delete(api.AutoscalingPolicyBinding, "b", world.namespace)

        async def is_unlearned() -> bool:
            return marks.SCALE_FROM_ZERO not in await world.notes()

        await eventually(is_unlearned)


@behavior
async def a_start_that_fails_is_told(world: World) -> None:
    """The pool gets what the container said last, until a Pod is ready."""
    pods = await world.workload(replicas=0, ready=0)
    await world.server(requests_waiting=1, waiting_for_endpoints=1)
    await world.policy(**{"headgate:requests_in_flight": 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "5m"})
    async with controlling(world.client, world.port):
        await world.has(1)
        [pod] = await world.client.list(api.Pod, world.namespace, label_selector="app=web")
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        container = {
            "name": "engine",
            "image": "engine:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"waiting": waiting},
        }
        # A scheduler without a node for it says again and again that it has none.
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
        status = {"containerStatuses": [container], "conditions": conditions}

        async def is_told() -> bool:
            await world.client.patch_status(api.Pod, pod.metadata.name, world.namespace, status)
            return "no such image" in (await world.notes()).get(marks.START_FAILED, "")

        await eventually(is_told)
        pods.ready = None

        async def is_over() -> bool:
            return marks.START_FAILED not in await world.notes()

        await eventually(is_over)


# --- what cannot be measured ----------------------------------------------------------------------------


@behavior
async def pods_that_say_nothing_never_shrink_it(world: World) -> None:
    """A metric that is lost is no idleness; the status says which one it is."""
    pods = await world.workload(replicas=4, totals={"load": 4.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.says("Ready", "True", "Scaling")
        pods.is_silent = True
        told = await world.says("MetricsAvailable", "False", "MetricsMissing")
        assert "load" in told
        await world.says("Ready", "False", "MetricsMissing")
        await world.has(4)
        pods.is_silent = False
        pods.totals["load"] = 2.0
        await world.has(2)
        await world.says("Ready", "True", "Scaling")


@behavior
async def restarts_of_containers_do_not_matter(world: World) -> None:
    """A Pod whose container restarted once counts as any other."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(3)
        [pod, *_] = await world.client.list(api.Pod, world.namespace, label_selector="app=web")
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        container = {
            "name": "engine",
            "image": "engine:1",
            "imageID": "",
            "ready": True,
            "restartCount": 3,
            "state": state,
        }
        await world.client.patch_status(
            api.Pod, pod.metadata.name, world.namespace, {"containerStatuses": [container]}
        )
        world.pods[world.namespace, "Deployment", "web"].totals["load"] = 5.0
        await world.has(5)


# --- who decides ----------------------------------------------------------------------------------------


@behavior
async def the_older_of_two_bindings_scales(world: World) -> None:
    """The younger one says so, and goes on when the older one is gone."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.policy("half", load="0.5")
    await world.binding("old")
    await asyncio.sleep(1.1)  # ages are in seconds
    await world.binding("new", "half")
    async with controlling(world.client):
        told = await world.says("Ready", "False", "Conflict", "new")
        assert "AutoscalingPolicyBinding" in told
        assert f"{world.namespace}/old" in told
        await world.has(3)
        await world.client.delete(api.AutoscalingPolicyBinding, "old", world.namespace)
        await world.has(6)
        await world.says("Ready", "True", "Scaling", "new")


@behavior
async def a_horizontal_autoscaler_that_was_there_first_scales(world: World) -> None:
    """The binding leaves the replicas to it until it is gone."""
    await world.workload(totals={"load": 3.0})
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 5,
    }
    await world.put(horizontal.HorizontalPodAutoscaler.resource, "web", spec)
    await asyncio.sleep(1.1)
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        told = await world.says("Ready", "False", "Conflict")
        assert "HorizontalPodAutoscaler" in told
        await world.has(1)
        await world.client.delete(horizontal.HorizontalPodAutoscaler, "web", world.namespace)
        await world.has(3)


@behavior
async def a_variant_that_was_there_first_decides(world: World) -> None:
    """The binding leaves the workload of its name to it."""
    await world.workload(totals={"load": 3.0})
    spec = {
        "modelID": "m",
        "variantID": "m-A100-1",
        "accelerator": "A100",
        "acceleratorCount": 1,
        "sloClassRef": {"name": "classes", "key": "premium.yaml"},
        "variantProfile": {
            "maxBatchSize": 4,
            "perfParms": {"decodeParms": {"alpha": "20.58"}, "prefillParms": {"gamma": "5.2"}},
        },
    }
    await world.put(llmd.VariantAutoscaling.resource, "web", spec)
    await asyncio.sleep(1.1)
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        assert "VariantAutoscaling" in await world.says("Ready", "False", "Conflict")
        await world.has(1)


@behavior
async def others_may_change_replicas(world: World) -> None:
    """What a person sets is corrected by the next decision, within the bounds."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding(most=4)
    async with controlling(world.client):
        await world.has(3)
        path = world.client.path_of(api.Deployment.resource, "web", world.namespace, "scale")
        change = {"spec": {"replicas": 9}}
        await world.client.ask("PATCH", path, change, content_type="application/merge-patch+json")
        await world.has(3)


# --- what is wrong --------------------------------------------------------------------------------------


@behavior
async def targets_that_are_missing_are_waited_for(world: World) -> None:
    """The condition names them, and they are scaled once they are there."""
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        told = await world.says("TargetFound", "False", "TargetNotFound")
        assert f"Deployment {world.namespace}/web" in told
        await world.says("Ready", "False", "TargetNotFound")
        await world.workload(totals={"load": 2.0})
        await world.has(2)
        await world.says("TargetFound", "True", "TargetFound")


@behavior
async def kinds_that_cannot_be_scaled_are_refused(world: World) -> None:
    """With the kinds that can."""
    await world.policy(load=1)
    await world.binding(kind="ModelServing")
    async with controlling(world.client):
        told = await world.says("Ready", "False", "KindNotSupported")
        assert "Deployment, StatefulSet, LeaderWorkerSet and Model" in told
        await world.says("TargetFound", "False", "KindNotSupported")


@behavior
async def a_policy_that_is_gone_stops_scaling(world: World) -> None:
    """Replicas stay as they are until there is one again."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(3)
        await world.client.delete(api.AutoscalingPolicy, "p", world.namespace)
        told = await world.says("Ready", "False", "PolicyNotFound")
        assert f"{world.namespace}/p" in told
        world.pods[world.namespace, "Deployment", "web"].totals["load"] = 5.0
        await world.has(3)
        await world.policy(load=1)
        await world.has(5)


@behavior
async def a_changed_policy_counts_at_once(world: World) -> None:
    """Without a restart of anything."""
    await world.workload(totals={"load": 4.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(4)
        await world.policy(load=2)
        await world.has(2)


# --- what is told ---------------------------------------------------------------------------------------


@behavior
async def the_status_explains_the_decision(world: World) -> None:
    """The metric, its value and target, the rule, and a sentence."""
    await world.workload(totals={"load": 30.0})
    await world.policy(load=1)
    await world.binding(most=4)
    async with controlling(world.client):
        await world.has(4)
        await world.says("ScalingLimited", "True", "Maximum")
        said = await world.decides(4)
    assert said["observedGeneration"] == 1
    assert (said["metricName"], said["value"], said["targetValue"]) == ("load", "30", "1")
    assert (said["recommendedReplicas"], said["rule"], said["mode"]) == (30, "Maximum", "Stable")
    assert "load is 30 in total" in said["message"]


@behavior
async def turns_are_told_by_events(world: World) -> None:
    """The first step in each direction, and a bound that is reached."""
    pods = await world.workload(totals={"load": 30.0})
    await world.policy(load=1)
    await world.binding(most=3)
    async with controlling(world.client):
        await world.has(3)
        pods.totals["load"] = 1.0
        await world.has(1)

        async def are_told() -> bool:
            events = await world.client.list(api.Event, world.namespace)
            own = {each.reason for each in events if each.involved_object.name == "b"}
            return {"ScalingUp", "AtMaximum", "ScalingDown"} <= own

        await eventually(are_told)


# --- what is kept ---------------------------------------------------------------------------------------


@behavior
async def a_restart_keeps_the_windows(world: World) -> None:
    """A19: what was recommended before the restart still holds replicas after it."""
    window = {**AT_ONCE, "stabilizationWindow": "30m"}
    pods = await world.workload(totals={"load": 6.0})
    await world.policy(load=1, behavior={"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": window})
    await world.binding()
    async with controlling(world.client):
        await world.has(6)
        await world.decides(6)
    pods.totals["load"] = 1.0
    async with controlling(world.client):

        async def is_held() -> bool:
            return (await world.status()).get("rule") == "StabilizationWindow"

        await eventually(is_held)
        await world.has(6)
    # Without it, nobody would know that six were recommended: an empty window begins with the current number.
    assert '"highs"' in (await world.status())["history"]


@behavior
async def a_policy_that_changes_keeps_the_windows(world: World) -> None:
    """So that an edit does not scale down at once."""
    window = {**AT_ONCE, "stabilizationWindow": "30m"}
    slowly = {"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": window}
    await world.workload(totals={"load": 6.0})
    await world.policy(load=1, behavior=slowly)
    await world.binding()
    async with controlling(world.client):
        await world.has(6)
        await world.policy(load=3, behavior=slowly)

        async def is_held() -> bool:
            return (await world.status()).get("rule") == "StabilizationWindow"

        await eventually(is_held)
        assert await world.replicas() == 6
