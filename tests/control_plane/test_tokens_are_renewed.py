"""Tokens of service accounts, issued by a real API server."""

import asyncio
import time
from types import SimpleNamespace

import msgspec

from headgate import api, cluster
from headgate.node import downward, pod_directories, pod_spec, pod_volumes


async def test_a_token_is_replaced_in_time(cluster, namespace, tmp_path, monkeypatch):
    """When most of its time is over, the file of a running Pod has a new token; before, it stays."""
    clock = SimpleNamespace(time=time.time)
    monkeypatch.setattr(pod_volumes, "time", clock)
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    mounts = [{"name": "t", "mountPath": "/t"}]
    spec = {
        "containers": [{"name": "c", "image": "none", "volumeMounts": mounts}],
        "volumes": [{"name": "t", "projected": {"sources": [source]}}],
        "automountServiceAccountToken": False,
    }
    cluster.apply(manifest | {"spec": spec}, namespace=namespace)
    pod = msgspec.convert(cluster.get("pod", "one", "-n", namespace), api.Pod)
    who = downward.PodIdentity(pod, "n", "10.0.0.1", "10.0.0.2")
    reports: asyncio.Queue[str] = asyncio.Queue()
    directories = pod_directories.PodDirectories(tmp_path)
    async with client_of(cluster) as client:
        volumes = pod_volumes.PodVolumes(
            msgspec.convert(spec, pod_spec.PodSpec), client, directories, lambda: who
        )
        running = asyncio.create_task(volumes.run(reports.put_nowait))
        tokens = []
        for passed_s in (0, 400, 500):
            clock.time = lambda passed_s=passed_s: time.time() + passed_s
            volumes.changed()
            for _ in range(2):  # the change may come while an update runs
                assert await asyncio.wait_for(reports.get(), 60) == ""
                volumes.changed()
            tokens.append((volumes.provided["t"].path / "token").read_text())
        running.cancel()
    assert tokens[0] == tokens[1] != tokens[2]


def client_of(plane) -> cluster.Client:
    return cluster.Client.from_kubeconfig(plane.kubeconfig)
