"""A gateway follows the Secrets that ModelServers and InferencePools name, and no others."""

import asyncio

from headgate import api, apiserver, cluster
from headgate.api import gie_v1
from headgate.gateway import GatewaySettings
from headgate.gateway.service import Service

POOL = api.ObjectRef("ModelServer", "default", "s")
INFERENCE_POOL = api.ObjectRef("InferencePool", "default", "s")
NOTES = {"headgate.dev/tls-ca": "ours"}


async def test_a_secret_that_comes_later_opens_its_pool(tmp_path, eventually):
    """Without it a gateway starts all the same; when it is there, or changes, the pool follows."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        asyncio.TaskGroup() as tasks,
    ):
        manifest = {
            "apiVersion": api.ModelServer.resource.api_version,
            "kind": "ModelServer",
            "metadata": {"name": "s", "namespace": "default", "annotations": NOTES},
            "spec": {
                "inferenceEngine": "vLLM",
                "workloadSelector": {"matchLabels": {"app": "s"}},
                "workloadPort": {"port": 1, "protocol": "https"},
            },
        }
        await client.create_manifest(manifest)
        pool = {
            "apiVersion": gie_v1.InferencePool.resource.api_version,
            "kind": "InferencePool",
            "metadata": {
                "name": "s",
                "namespace": "default",
                "annotations": {"headgate.dev/tls-ca": "also-ours", "headgate.dev/protocol": "https"},
            },
            "spec": {"selector": {"matchLabels": {"app": "s"}}, "targetPorts": [{"number": 1}]},
        }
        await client.create_manifest(pool)
        ready = asyncio.Event()
        service = Service(
            GatewaySettings().replace(kubernetes_kubeconfig=str(server.kubeconfig), logging_access_log="off")
        )
        following = tasks.create_task(service.run(ready.set))
        await ready.wait()
        shell = service.shell
        assert "there is no Secret default/ours" in shell.plane.snapshot.pools[POOL].fault
        authority = (tmp_path / "pki" / "ca.crt").read_text()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "ours", "namespace": "default"},
            "stringData": {"ca.crt": authority},
        }
        await client.create_manifest(secret)
        await eventually(lambda: not shell.plane.snapshot.pools[POOL].fault)
        assert shell.plane.snapshot.pools[POOL].tls.authorities == authority
        assert "there is no Secret default/also-ours" in shell.plane.snapshot.pools[INFERENCE_POOL].fault
        secret["metadata"]["name"] = "also-ours"
        await client.create_manifest(secret)
        await eventually(lambda: not shell.plane.snapshot.pools[INFERENCE_POOL].fault)
        await client.delete(api.Secret, "ours", "default")
        await eventually(lambda: shell.plane.snapshot.pools[POOL].fault)
        following.cancel()
        await service.close()
