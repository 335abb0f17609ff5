"""Where the behaviors of autoscaling take place: an API server, a controller, and Pods that the test plays.

Pods are objects whose status the world writes, as a kubelet would; their metrics pages are served from one
port, and each address has its own page. On an API server without controllers, the world also makes the Pods
of workloads, as these would.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from played_pods import Pods

from headgate import api, cluster
from headgate.api import apps, leaderworkersets
from headgate.controllers.autoscaling import AutoscalingController, AutoscalingSettings

LIMIT_S = 120.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""
SETTINGS = AutoscalingSettings(period_s=0.3, signals_s=0.2, deadline_s=2.0)
KINDS: Mapping[str, type[Any]] = {
    kind.resource.kind: kind for kind in (api.Deployment, apps.StatefulSet, api.LeaderWorkerSet)
}
AT_ONCE = {"instances": 1000, "percent": 1000, "period": "15s", "stabilizationWindow": "0s"}
ANY_SPEED = {"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": AT_ONCE}
_addresses = itertools.count(2)

T = TypeVar("T")


@dataclass
class World:
    """The server, the Pods, and what the tests ask of them."""

    client: cluster.Client
    namespace: str
    port: int
    makes_pods: bool
    """Whether nobody else makes the Pods of workloads."""
    new_namespace: Callable[[], Awaitable[str]]
    pods: dict[tuple[str, str, str], Pods] = field(default_factory=dict)
    signals: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the gateway tells of ModelServers, by name."""
    is_over: bool = False
    served: set[asyncio.Task[Any]] = field(default_factory=set)
    """Connections."""

    # What exists

    async def workload(
        self, name: str = "web", replicas: int = 1, kind: str = "Deployment", namespace: str = "", **pods: Any
    ) -> Pods:
        """Create a workload; its Pods are as the keywords say."""
        namespace = namespace or self.namespace
        place = (namespace, kind, name)
        self.pods[place] = Pods(place, **pods)
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "engine", "image": "engine:1"}]},
        }
        lws = {leaderworkersets.NAME: name, leaderworkersets.WORKER_INDEX: "0"}
        self.pods[place].labels = lws if kind == "LeaderWorkerSet" else labels
        spec: dict[str, Any] = {"replicas": replicas}
        if kind == "LeaderWorkerSet":
            spec["leaderWorkerTemplate"] = {"size": 1, "workerTemplate": template}
        else:
            spec |= {"selector": {"matchLabels": labels}, "template": template}
        if kind == "StatefulSet":
            spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        await self.put(KINDS[kind].resource, name, spec, namespace=namespace)
        return self.pods[place]

    async def adopt(self, name: str) -> Pods:
        """Play the Pods of a Deployment that somebody else makes, once it is there."""
        place = (self.namespace, "Deployment", name)

        async def is_there() -> bool:
            try:
                found = await self.client.get_manifest(api.Deployment.resource, name, self.namespace)
            except cluster.NotFound:
                return False
            self.pods[place] = Pods(place, labels=found["spec"]["selector"]["matchLabels"])
            return True

        await eventually(is_there)
        return self.pods[place]

    async def policy(self, name: str = "p", namespace: str = "", **targets: Any) -> None:
        """Create a policy with these targets of metrics; `behavior` and `tolerancePercent` are fields of its
        spec. By default, it may change replicas by any number at once."""
        spec: dict[str, Any] = {"tolerancePercent": 0, "behavior": ANY_SPEED}
        for field_name in ("behavior", "tolerancePercent"):
            if field_name in targets:
                spec[field_name] = targets.pop(field_name)
        spec["metrics"] = [{"metricName": each, "targetValue": str(to)} for each, to in targets.items()]
        await self.put(api.AutoscalingPolicy.resource, name, spec, namespace=namespace or self.namespace)

    def target(
        self, name: str = "web", kind: str = "Deployment", least: int = 1, most: int = 100, **more: Any
    ) -> dict[str, Any]:
        """What a binding says of one target."""
        kinds = {**{each: known.resource for each, known in KINDS.items()}, "Model": api.Model.resource}
        version = kinds[kind].api_version if kind in kinds else "example.com/v1"
        reference = {"apiVersion": version, "kind": kind, "name": name, **more.pop("ref", {})}
        target = {"targetRef": reference, "metricEndpoint": {"port": self.port}}
        return {"target": target, "minReplicas": least, "maxReplicas": most, **more}

    async def binding(
        self,
        name: str = "b",
        policy: str = "p",
        namespace: str = "",
        annotations: Mapping[str, str] | None = None,
        **target: Any,
    ) -> None:
        """Create a binding for one target."""
        spec = {"policyRef": {"name": policy}, "scalingConfiguration": self.target(**target)}
        resource = api.AutoscalingPolicyBinding.resource
        await self.put(resource, name, spec, namespace=namespace, annotations=annotations)

    async def server(self, name: str = "web", **signals: Any) -> None:
        """A ModelServer of the workload of this name, and what the gateway tells of it."""
        self.signals[name] = signals
        spec = {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"app": name}}}
        await self.put(api.ModelServer.resource, name, {**spec, "workloadPort": {"port": 8000}})

    async def notes(self, name: str = "web") -> dict[str, str]:
        """The annotations of a ModelServer."""
        found = await self.client.get_manifest(api.ModelServer.resource, name, self.namespace)
        return dict(found["metadata"].get("annotations") or {})

    async def put(
        self,
        resource: api.Resource,
        name: str,
        spec: Any,
        namespace: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Create an object, or replace its spec."""
        namespace = namespace or self.namespace
        manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
            "spec": spec,
        }
        try:
            await self.client.create_manifest(manifest)
        except cluster.AlreadyExists:
            path = self.client.path_of(resource, name, namespace)
            change: Any = [{"op": "replace", "path": "/spec", "value": spec}]
            await self.client.ask("PATCH", path, change, content_type="application/json-patch+json")

    # What is seen

    async def replicas(self, name: str = "web", kind: str = "Deployment", namespace: str = "") -> int:
        found = await self.client.get_manifest(KINDS[kind].resource, name, namespace or self.namespace)
        return int(found["spec"].get("replicas", 1))

    async def status(self, name: str = "b", namespace: str = "") -> dict[str, Any]:
        resource = api.AutoscalingPolicyBinding.resource
        found = await self.client.get_manifest(resource, name, namespace or self.namespace)
        return dict(found.get("status") or {})

    async def condition(self, kind: str, name: str = "b") -> tuple[str, str]:
        """Status and reason of a condition of the binding; empty if it has none."""
        said = {each["type"]: each for each in (await self.status(name)).get("conditions", [])}
        return (said[kind]["status"], said[kind]["reason"]) if kind in said else ("", "")

    async def message(self, kind: str, name: str = "b") -> str:
        said = {each["type"]: each for each in (await self.status(name)).get("conditions", [])}
        return str(said[kind]["message"]) if kind in said else ""

    async def has(self, wanted: int, name: str = "web", **where: str) -> None:
        """The workload settles at so many replicas: it keeps them for some passes. Pods that come and go at
        their own pace may lead to other numbers before."""

        async def is_settled() -> bool:
            for _ in range(6):
                if await self.replicas(name, **where) != wanted:
                    return False
                await asyncio.sleep(SETTINGS.period_s)
            return True

        await eventually(is_settled)

    async def gets(self, wanted: int, name: str = "web", **where: str) -> None:
        """The workload gets so many replicas at some time."""

        async def is_so() -> bool:
            return await self.replicas(name, **where) == wanted

        await eventually(is_so)

    async def says(self, kind: str, status: str, reason: str, name: str = "b") -> str:
        """The binding gets this condition; returns its message."""

        async def is_so() -> bool:
            return await self.condition(kind, name) == (status, reason)

        await eventually(is_so)
        return await self.message(kind, name)

    async def decides(self, desired: int, name: str = "b") -> dict[str, Any]:
        """The status of the binding once it has decided so."""

        async def is_so() -> bool:
            return (await self.status(name)).get("desiredReplicas") == desired

        await eventually(is_so)
        return await self.status(name)

    # What the controller does not do

    async def tend(self) -> None:
        """Play the kubelet, and where nobody else does, those who make Pods; until cancelled."""
        while True:
            for place, pods in list(self.pods.items()):
                with contextlib.suppress(cluster.NotFound, cluster.Conflict, cluster.AlreadyExists):
                    await self._tend(place, pods)
            await asyncio.sleep(0.05)

    async def _tend(self, place: tuple[str, str, str], pods: Pods) -> None:
        namespace = place[0]
        selector = ",".join(f"{label}={value}" for label, value in pods.labels.items())
        known = await self.client.list(api.Pod, namespace, label_selector=selector)
        alive = [pod for pod in known if pod.metadata.deletion_timestamp is None]
        if self.makes_pods:
            await self._make(place, pods.labels, [pod.metadata.name for pod in alive])
        names = [pod.metadata.name for pod in sorted(alive, key=_age)]
        pods.order = [each for each in pods.order if each in names]
        pods.order += [each for each in names if each not in pods.order]
        for pod in alive:
            who = pod.metadata.name
            if who not in pods.addresses:
                number = next(_addresses)
                pods.addresses[who] = f"127.{40 + number // 65000}.{number // 250 % 250}.{number % 250 + 1}"
            is_ready = pods.is_ready(who)
            if pod.ready == is_ready and pod.status.pod_ip:
                continue
            address = pods.addresses[who]
            await self.client.patch_status(
                api.Pod,
                who,
                namespace,
                {
                    "phase": "Running",
                    "podIP": address,
                    "podIPs": [{"ip": address}],
                    "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
                },
            )

    async def _make(
        self, place: tuple[str, str, str], labels: Mapping[str, str], there: Sequence[str]
    ) -> None:
        namespace, kind, name = place
        workload = await self.client.get_manifest(KINDS[kind].resource, name, namespace)
        wanted = int(workload["spec"].get("replicas", 1))
        for leaving in sorted(there)[wanted:]:
            await self.client.delete(api.Pod, leaving, namespace, grace_s=0)
        template = workload["spec"].get("template", {}).get("metadata", {}).get("labels", {})
        for _ in range(wanted - len(there)):
            manifest = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{uuid.uuid4().hex[:8]}",
                    "namespace": namespace,
                    "labels": {"app": name, **template, **labels},
                },
                "spec": {"containers": [{"name": "engine", "image": "engine:1"}]},
            }
            await self.client.create_manifest(manifest)

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        """What a gateway tells, line by line, until the controller leaves."""
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not self.is_over:
            pools = [
                {"kind": "ModelServer", "namespace": self.namespace, "name": name, **signals}
                for name, signals in self.signals.items()
            ]
            writer.write(_chunk(msgspec.json.encode({"is_ready": True, "pools": pools}) + b"\n"))
            await writer.drain()
            await asyncio.sleep(0.1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The page of the Pod whose address was asked."""
        task = asyncio.current_task()
        assert task is not None
        self.served.add(task)
        task.add_done_callback(self.served.discard)
        address = writer.get_extra_info("sockname")[0]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /signals"):
                await self._tell(writer)
            body, code = "", "404 Not Found"
            for pods in self.pods.values():
                for who, own in pods.addresses.items():
                    if own == address and who in pods.order and not pods.is_silent:
                        body, code = pods.page(who), "200 OK"
            head = f"HTTP/1.1 {code}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write((head + body).encode())
            await writer.drain()
        writer.close()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _age(pod: api.Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp, pod.metadata.name


async def eventually(holds: Callable[[], Awaitable[bool]], limit_s: float = LIMIT_S) -> None:
    async with asyncio.timeout(limit_s):
        while not await holds():
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def controlling(
    client: cluster.Client, gateway_port: int | None = None, **changed: float
) -> AsyncIterator[AutoscalingController]:
    """A controller that runs inside the block, and follows the gateway on this port."""
    gateways = (f"http://127.0.0.1:{gateway_port}",) if gateway_port is not None else ()
    settings = msgspec.structs.replace(SETTINGS, gateways=gateways, **changed)
    controller, ready = AutoscalingController(client, settings=settings), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run(ready.set))
        await ready.wait()
        yield controller
        running.cancel()


@contextlib.asynccontextmanager
async def world_of(
    client: cluster.Client, new_namespace: Callable[[], Awaitable[str]], *, makes_pods: bool
) -> AsyncIterator[World]:
    """The world of one test, with a namespace of its own. Whoever asks for a controller runs one."""
    world = World(client, await new_namespace(), 0, makes_pods, new_namespace)
    server = await asyncio.start_server(world.serve, "0.0.0.0", 0)
    world.port = server.sockets[0].getsockname()[1]
    async with server, asyncio.TaskGroup() as tasks:
        tending = tasks.create_task(world.tend())
        try:
            yield world
        finally:
            world.is_over = True
            tending.cancel()
            await asyncio.gather(*world.served, return_exceptions=True)
