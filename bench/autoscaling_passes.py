"""CPU time of a pass over many bindings in the controller, without an API server: `--bindings 1000 --pods 8`.

Objects are given to the controller as informers would; what gateways tell is made up, and differs with each
pass. Replicas stay as they are, so that no write is measured. With `--pages`, each Pod's page is read from a
server on loopback, whose own CPU time is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import random
import socket
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import uvloop

from headgate import api, cluster, garbage
from headgate.api.kthena_registry import AutoscalingPolicySpec
from headgate.autoscaling import History, compile_policy
from headgate.cluster.store import ChangeKind
from headgate.controllers.autoscaling.following import Followed
from headgate.controllers.autoscaling.measuring import Meter
from headgate.controllers.autoscaling.passes import Memory, Passes
from headgate.controllers.autoscaling.pools import PoolServer
from headgate.controllers.autoscaling.settings import AutoscalingSettings
from headgate.controllers.autoscaling.status import decided
from headgate.controllers.autoscaling.workloads import ScalableDeployment
from headgate.observe.signals import PoolLoad, Signals

PAGE = "\n".join(f"vllm:metric_{number} {number}" for number in range(200)) + "\nload 1\n"


class MadeUp(Signals):
    """What gateways tell: half a replica's work for each, more or less."""

    def __init__(self, pods: int) -> None:
        super().__init__()
        self._pods = pods
        self._rng = random.Random(1)

    def of(self, pool: api.ObjectRef) -> PoolLoad:
        work = self._pods * 0.68 * self._rng.uniform(0.99, 1.01)
        return PoolLoad(is_known=True, metrics={"headgate:work_seconds": work})


def added(obj: Any) -> cluster.Change[Any]:
    return cluster.Change(ChangeKind.ADDED, None, obj)


def fill(followed: Followed, bindings: int, pods: int, port: int) -> list[api.AutoscalingPolicyBinding]:
    """The objects; returns the bindings."""
    found = []
    for number in range(bindings):
        name, namespace = f"m{number}", f"n{number % 20}"
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "resourceVersion": "1",
            "generation": 1,
        }
        labels = {"app": name}
        template = {"metadata": {"labels": labels}}
        spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
        workload = msgspec.convert({"metadata": metadata, "spec": spec}, ScalableDeployment)
        followed._workload_changed(added(workload))
        server = {"metadata": metadata, "spec": {"workloadSelector": {"matchLabels": labels}}}
        followed.pools.put(added(msgspec.convert(server, PoolServer)))
        for index in range(pods):
            pod = {
                "metadata": {
                    "name": f"{name}-{index}",
                    "namespace": namespace,
                    "uid": f"{name}-{index}",
                    "labels": labels,
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                },
                "status": {
                    "phase": "Running",
                    "podIP": "127.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
            followed._pod_changed(added(msgspec.convert(pod, api.Pod)))
        target = {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "metricEndpoint": {"port": port},
        }
        configuration = {"target": target, "minReplicas": 1, "maxReplicas": 50}
        bound = {"policyRef": {"name": "p"}, "scalingConfiguration": configuration}
        binding = msgspec.convert({"metadata": metadata, "spec": bound}, api.AutoscalingPolicyBinding)
        followed._binding_changed(added(binding))
        found.append(binding)
    return found


def serve(listener: socket.socket, is_closing: bool) -> None:
    """Pages of all Pods."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(PAGE)}\r\n"
        head += "connection: close\r\n\r\n" if is_closing else "\r\n"
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while not reader.at_eof():
                await reader.readuntil(b"\r\n\r\n")
                writer.write((head + PAGE).encode())
                await writer.drain()
                if is_closing:
                    break
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(answer, sock=listener, backlog=4096) as server:
            await server.serve_forever()

    uvloop.run(main())


async def measure(
    bindings: int, pods: int, passes: int, port: int, metric: str
) -> Sequence[tuple[float, float]]:
    """CPU seconds of each pass over all bindings, in the program and in the kernel."""
    followed = Followed(lambda key: None, lambda key: None)
    found = fill(followed, bindings, pods, port)
    spec = {"metrics": [{"metricName": metric, "targetValue": "0.7" if ":" in metric else "1"}]}
    policy = compile_policy(msgspec.convert(spec, AutoscalingPolicySpec))
    memories = {each.metadata.key: Memory(each.metadata.uid, History.empty()) for each in found}
    async with cluster.Client.from_url("http://127.0.0.1:1") as client:
        meter = Meter(AutoscalingSettings(), None)
        runs = Passes(client, followed, MadeUp(pods), meter)
        limit = asyncio.Semaphore(64)
        spent = []

        async def one(binding: api.AutoscalingPolicyBinding, now: float) -> None:
            async with limit:
                memory = memories[binding.metadata.key]
                targets = followed.targets(binding)
                assert not isinstance(targets, tuple)
                assert followed.rival(binding, targets[0].workload) is None
                done = await runs.run(binding, policy, targets, memory, now)
                assert done.outcome.decision.desired == pods, done.outcome.decision
                assert done.outcome.decision.recommended is not None, done.problems
                decided(binding, done, None)

        garbage.spare_what_there_is()  # as the controller does
        for number in range(passes):
            now = time.time() + 15.0 * number
            began = os.times()
            async with asyncio.TaskGroup() as group:
                for binding in found:
                    group.create_task(one(binding, now))
            ended = os.times()
            spent.append((ended.user - began.user, ended.system - began.system))
        return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindings", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=8)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--pages", action="store_true", help="read the metrics of Pods")
    parser.add_argument("--closing", action="store_true", help="Pods close connections after each page")
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        server = multiprocessing.get_context("fork").Process(
            target=serve, args=(listener, given.closing), daemon=True
        )
        server.start()
        port = listener.getsockname()[1]
        metric = "load" if given.pages else "headgate:work_seconds"
        spent = uvloop.run(measure(given.bindings, given.pods, given.passes, port, metric))
        server.terminate()
    for number, (program, kernel) in enumerate(spent, 1):
        each_us = 1e6 * (program + kernel) / given.bindings
        seconds = f"{program + kernel:.3f} s of CPU ({kernel:.3f} s in the kernel)"
        print(f"pass {number}: {seconds}, {each_us:.0f} µs for each binding")


if __name__ == "__main__":
    main()
