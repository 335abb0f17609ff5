"""Deployments over the API: sized, rolled, rolled back, and removed, with real Pods."""

import asyncio
import time

from headgate import api, cluster
from headgate.node import deployments, workloads


async def until_rolled_out(machine, timeout_s: float = 60.0) -> api.Deployment:
    """As `kubectl rollout status` waits."""
    deadline = time.monotonic() + timeout_s
    while True:
        deployment = await machine.client.get(api.Deployment, "web", "default")
        status, wanted = deployment.status, deployment.spec.replicas
        observed = status.observed_generation >= deployment.metadata.generation
        if observed and status.updated_replicas == status.replicas == status.available_replicas == wanted:
            return deployment
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.03)


def version_of(pod: api.Pod) -> str | None:
    return pod.spec.containers[0].env[0].value


async def test_a_deployment_is_made_scaled_and_removed(machine, deployment_manifest):
    """Pods come, more come, some go, and all go with their Deployment."""
    async with machine.node():
        await machine.client.create_manifest(deployment_manifest(replicas=2))
        deployment = await until_rolled_out(machine)
        conditions = {each.type: (each.status, each.reason) for each in deployment.status.conditions}
        assert conditions == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        for replicas in (3, 1):
            await machine.client.patch(api.Deployment, "web", "default", {"spec": {"replicas": replicas}})
            await until_rolled_out(machine)
            await machine.until_ready(replicas)
        await machine.client.delete(
            api.Deployment, "web", "default", propagation=cluster.CascadeType.BACKGROUND
        )
        await machine.until(lambda pods: not pods)
        assert await machine.client.list(api.ReplicaSet) == []


async def test_a_template_change_never_drops_below_the_floor(machine, deployment_manifest):
    """While a new template rolls out, the wanted number of Pods stays ready; fields new to us come along."""
    async with machine.node():
        await machine.client.create_manifest(deployment_manifest(replicas=2))
        await until_rolled_out(machine)
        fewest = 99

        async def watch() -> None:
            nonlocal fewest
            while True:
                fewest = min(fewest, sum(pod.ready for pod in await machine.pods()))
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch())
            template = deployment_manifest(version="2")["spec"]["template"]
            await machine.client.patch(api.Deployment, "web", "default", {"spec": {"template": template}})
            await until_rolled_out(machine)
            watching.cancel()
        assert fewest >= 2
        pods = await machine.until_ready(2)
        assert {version_of(pod) for pod in pods} == {"2"}
        manifest = await machine.client.get_manifest(api.Pod.resource, pods[0].metadata.name, "default")
        assert manifest["spec"]["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["kept"]}]


async def test_a_rollback_reuses_the_old_set_under_a_new_revision(machine, deployment_manifest):
    """Going back to an old template gives its ReplicaSet the highest revision; no third one is made."""
    async with machine.node():
        first = deployment_manifest(replicas=1)
        await machine.client.create_manifest(first)
        await until_rolled_out(machine)
        second = deployment_manifest(version="2")["spec"]["template"]
        for template in (second, first["spec"]["template"]):
            await machine.client.patch(api.Deployment, "web", "default", {"spec": {"template": template}})
            await until_rolled_out(machine)
        sets = await machine.client.list(api.ReplicaSet)
        assert sorted((each.spec.replicas, _revision(each)) for each in sets) == [(0, "2"), (1, "3")]
        assert _revision(await machine.client.get(api.Deployment, "web", "default")) == "3"


async def test_recreate_waits_for_the_last_old_pod(machine, deployment_manifest):
    """With Recreate no Pod of the new template exists while one of the old template does."""
    async with machine.node():
        await machine.client.create_manifest(deployment_manifest(strategy={"type": "Recreate"}))
        await until_rolled_out(machine)
        template = deployment_manifest(version="2")["spec"]["template"]
        await machine.client.patch(api.Deployment, "web", "default", {"spec": {"template": template}})
        while {version_of(pod) for pod in await machine.pods()} != {"2"}:
            assert {version_of(pod) for pod in await machine.pods()} != {"1", "2"}
        await until_rolled_out(machine)


async def test_a_paused_deployment_is_scaled_but_not_rolled(machine, deployment_manifest):
    """While paused a new template waits; the number of Pods still follows."""
    async with machine.node():
        await machine.client.create_manifest(deployment_manifest(replicas=1))
        await until_rolled_out(machine)
        template = deployment_manifest(version="2")["spec"]["template"]
        patch = {"spec": {"paused": True, "replicas": 2, "template": template}}
        await machine.client.patch(api.Deployment, "web", "default", patch)
        pods = await machine.until_ready(2)
        assert {version_of(pod) for pod in pods} == {"1"}
        await machine.client.patch(api.Deployment, "web", "default", {"spec": {"paused": False}})
        await until_rolled_out(machine)
        assert {version_of(pod) for pod in await machine.until_ready(2)} == {"2"}


async def test_a_set_that_could_not_be_made_is_tried_again(machine, deployment_manifest, monkeypatch):
    """The status says what is in the way; when that is gone, which nobody tells, the rollout goes on."""
    monkeypatch.setattr(deployments, "_RETRY_S", 0.1)
    stored = await machine.client.create_manifest(deployment_manifest(replicas=1))
    name = f"web-{workloads.content_hash(stored['spec']['template'])}"
    in_the_way = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    await machine.client.create_manifest(in_the_way)
    async with machine.node():
        async with asyncio.timeout(60):
            while "already exists" not in await _said(machine, "ReplicaFailure"):
                await asyncio.sleep(0.03)
        await machine.client.delete(api.ReplicaSet, name, "default")
        await until_rolled_out(machine)
        assert await _said(machine, "ReplicaFailure") == ""


async def _said(machine, condition: str) -> str:
    deployment = await machine.client.get(api.Deployment, "web", "default")
    return next((each.message for each in deployment.status.conditions if each.type == condition), "")


def _revision(obj: api.ReplicaSet | api.Deployment) -> str:
    return obj.metadata.annotations["deployment.kubernetes.io/revision"]
