"""Once an autoscaler is bound, the controller lets go of the number of replicas, without changing it."""

import asyncio
import contextlib

import pytest

from headgate import api, cluster
from headgate.api.horizontal import HorizontalPodAutoscaler

POLICY = {"metrics": [{"metricName": "num_requests_waiting", "targetValue": 10}]}


async def scale(lab, replicas: int) -> None:
    """As an autoscaler does."""
    change = {"spec": {"replicas": replicas}}
    path = lab.client.path_of(api.Deployment.resource, "m-b", "default", "scale")
    merge = cluster.PatchType.MERGE.value
    answer = await lab.client.ask("PATCH", path, change, content_type=merge)
    assert answer.status_code == 200


async def replicas(lab) -> int:
    return (await lab.there(api.Deployment, "m-b"))["spec"]["replicas"]


@contextlib.asynccontextmanager
async def watched(lab):
    """Collects every number of replicas that the Deployment has inside the block."""
    seen: list[int] = []
    informer = cluster.Informer(lab.client, api.Deployment, "default")
    informer.subscribe(lambda change: seen.append(change.object.spec.replicas))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(informer.run())
        await informer.wait_synced()
        yield seen
        running.cancel()


async def owners(lab) -> set[str]:
    fields = (await lab.get(api.Deployment, "m-b"))["metadata"]["managedFields"]
    return {each["manager"] for each in fields if "f:replicas" in each["fieldsV1"].get("f:spec", {})}


async def test_a_policy_takes_the_replicas_over_and_gives_them_back(lab, backend):
    """They are never 1 in between, which a removed field would become."""
    await lab.model(backend(minReplicas=3, maxReplicas=3))
    await lab.there(api.Deployment, "m-b")
    await lab.settled()
    async with watched(lab) as seen:
        await lab.model(backend(minReplicas=3, maxReplicas=9, autoscalingPolicy=POLICY))
        await lab.there(api.AutoscalingPolicyBinding, "m-b")

        async def is_handed_over():
            return "headgate-model" not in await owners(lab)

        await lab.eventually(is_handed_over)
        assert await replicas(lab) == 3
        await scale(lab, 7)
        await lab.settled()
        await lab.model(
            backend(
                minReplicas=3,
                maxReplicas=9,
                autoscalingPolicy=POLICY,
                workers=[{"type": "server", "image": "other"}],
            )
        )

        async def is_rolled_out():
            pod = (await lab.get(api.Deployment, "m-b"))["spec"]["template"]["spec"]
            return pod["containers"][0]["image"] == "other"

        await lab.eventually(is_rolled_out)
        await lab.settled()
        assert await replicas(lab) == 7
        assert set(seen) == {3, 7}
    await lab.model(backend(minReplicas=4, maxReplicas=4))
    await lab.gone(api.AutoscalingPolicyBinding, "m-b")
    await lab.gone(api.AutoscalingPolicy, "m-b")

    async def is_four():
        return await replicas(lab) == 4

    await lab.eventually(is_four)


async def test_a_model_that_begins_with_a_policy_has_the_fewest_replicas(lab, backend):
    async with watched(lab) as seen:
        await lab.model(backend(minReplicas=2, maxReplicas=9, autoscalingPolicy=POLICY))
        await lab.there(api.AutoscalingPolicyBinding, "m-b")
        await lab.settled()
        assert await replicas(lab) == 2
        await scale(lab, 5)
        await lab.settled()
    assert set(seen) == {2, 5}


@pytest.mark.parametrize("which", ["binding", "horizontal"])
async def test_autoscalers_of_others_are_respected(lab, backend, which):
    """Those that a person binds to a workload of a Model."""
    await lab.model(backend(minReplicas=2, maxReplicas=2))
    await lab.there(api.Deployment, "m-b")
    await lab.settled()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "m-b"}
    if which == "binding":
        resource = api.AutoscalingPolicyBinding.resource
        policy = api.AutoscalingPolicy.resource
        await lab.client.create_manifest(
            {
                "apiVersion": policy.api_version,
                "kind": policy.kind,
                "metadata": {"name": "theirs", "namespace": "default"},
                "spec": POLICY,
            }
        )
        scaling = {"target": {"targetRef": target}, "minReplicas": 1, "maxReplicas": 9}
        spec = {"policyRef": {"name": "theirs"}, "scalingConfiguration": scaling}
    else:
        resource = HorizontalPodAutoscaler.resource
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9}
    await lab.client.create_manifest(
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "theirs", "namespace": "default"},
            "spec": spec,
        }
    )

    async def is_handed_over():
        return "headgate-model" not in await owners(lab)

    await lab.eventually(is_handed_over)
    await scale(lab, 6)
    await lab.settled()
    assert await replicas(lab) == 6
