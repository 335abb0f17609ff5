"""The example of docs/cluster-access.md, as a reader would run it."""

import asyncio
import os
import re
import sys
from pathlib import Path

from headgate import api, apiserver
from headgate.cluster import Client, Informer

DOCS = Path(__file__).parents[2] / "docs" / "cluster-access.md"


def labels(pods: Informer[api.Pod]) -> dict[str, str] | None:
    pod = pods.get("default", "engine")
    return pod.metadata.labels if pod else None


async def test_the_documented_controller_labels_a_pod(tmp_path, kit):
    """Started with KUBECONFIG alone, it labels a Pod that comes later with its phase."""
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "engine", "namespace": "default"},
        "spec": {"containers": [{"name": "engine", "image": "engine"}]},
    }
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}
        controller = await asyncio.create_subprocess_exec(sys.executable, "-c", example, env=environment)
        try:
            await client.create_manifest(pod)
            await client.patch_status(api.Pod, "engine", "default", {"phase": "Running"})
            pods = Informer(client, api.Pod)
            async with kit.running(pods.run()):
                await kit.eventually(lambda: labels(pods) == {"phase": "Running"}, timeout_s=20)
        finally:
            controller.kill()
            await controller.wait()
