"""A gateway follows InferencePools and their objects, on servers that lack other kinds."""

import asyncio
from pathlib import Path

import msgspec

from headgate import api, apiserver, cluster
from headgate.api import gie_v1
from headgate.cli.manifests import load
from headgate.gateway import GatewaySettings
from headgate.gateway.service import Service

EXAMPLE = Path(__file__).parents[2] / "examples" / "inference-pool"
POOL = api.ObjectRef("InferencePool", "default", "sim-base")


async def test_the_example_is_routed_without_kthenas_kinds(tmp_path, eventually):
    """Its definitions are not installed: the gateway starts all the same, and follows every change."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for definition in await client.list(api.CustomResourceDefinition):
            if definition.spec.group == api.ModelRoute.resource.group:
                await client.delete(api.CustomResourceDefinition, definition.metadata.name)
        ready = asyncio.Event()
        service = Service(
            GatewaySettings().replace(kubernetes_kubeconfig=str(server.kubeconfig), logging_access_log="off")
        )
        following = tasks.create_task(service.run(ready.set))
        await ready.wait()
        shell = service.shell
        assert shell.plane.snapshot.names() == []
        for manifest in load([str(EXAMPLE)]):
            if manifest.kind != "Deployment":
                await client.create_manifest(manifest.content)
        await eventually(lambda: shell.plane.snapshot.names() == ["sim-base", "summarize"])
        assert shell.plane.snapshot.models["summarize"][0].priority == 1
        await eventually(lambda: shell.plane.snapshot.pools[POOL].objectives == {"batch": -10})

        status = {"podIP": "127.0.0.2", "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": "p", "namespace": "default", "labels": {"app": "sim-base"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        pod = {"metadata": metadata, "spec": spec}
        await client.create(msgspec.convert(pod, api.Pod))
        await client.patch_status(api.Pod, "p", "default", status)
        await eventually(lambda: len(shell.plane.pools[POOL].loads) == 1)

        taken = shell.snapshots_taken
        parent = {"parentRef": {"name": "gw"}, "controllerName": "example.com/c"}
        await client.patch_status(gie_v1.InferencePool, "sim-base", "default", {"parents": [parent]})
        await client.delete(api.InferenceModel, "summarize", "default")
        await eventually(lambda: shell.plane.snapshot.names() == ["sim-base"])
        assert shell.snapshots_taken == taken + 1  # the status of an object is no change of what it says
        following.cancel()
        await service.close()
