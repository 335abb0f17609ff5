"""A node's configuration, and its Node object: heartbeats, and where it is reached."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import platform
import re
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from headgate import api, cluster
from headgate.api import marks
from headgate.kubeschema import timestamps
from headgate.node.images import NO_IMAGES, ImagePrograms
from headgate.node.kubelet import TlsFiles
from headgate.node.mounts import Mounting

MAX_PODS = 110
"""As with a kubelet."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40
"""How long the control plane waits for a heartbeat, as with a kubelet."""
STATUS_S = 300.0
"""Interval of status writes while heartbeats are renewals of the Lease."""


@dataclass(frozen=True)
class Taint:
    """Keeps Pods away that do not tolerate it."""

    key: str
    value: str
    effect: str

    @classmethod
    def parse(cls, text: str) -> Taint:
        """From `KEY[=VALUE]:EFFECT`. Raises ValueError."""
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        if not key or effect not in EFFECTS:
            raise ValueError(f"{text!r} is not KEY[=VALUE]:EFFECT with an effect of {', '.join(EFFECTS)}")
        return cls(key, value, effect)


@dataclass(frozen=True)
class NodeConfig:
    """Configuration of `run_node`."""

    state: Path
    """Directory for logs and process records; only one node at a time may use it."""
    kubeconfig: Path | None = None
    """How to reach the API server; None uses kubectl's default."""
    node_name: str | None = None
    """None for the name stored in the state directory, or else the host's."""
    drain_timeout_s: float = 10.0
    """Maximum time for the processes of Pods to end when the node stops."""
    heartbeat_s: float = 10.0
    pod_cidr: ipaddress.IPv4Network | None = None
    """Range of Pod addresses, all of which are this machine's; None for a loopback range."""
    node_ip: str = ""
    """Where the API server reaches this machine; empty for the address that it is reached from."""
    controllers: bool | None = None
    """Whether to run controllers of Deployments and ReplicaSets, and to bind Pods; None: where the API server
    is the embedded one, which has none of its own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    mounting: Mounting | None = None
    """How containers get their volumes; None for the best way that works on this machine."""
    images: ImagePrograms = NO_IMAGES
    """What runs in place of images."""
    kubelet_port: int | None = None
    """Port of the node's API; None for that of kubelets, or any other if it is taken."""
    tls: TlsFiles = field(default_factory=TlsFiles)
    """Of the node's API."""

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def processes(self) -> Path:
        return self.state / "processes"


@dataclass(frozen=True)
class Identity:
    """The node as the API knows it."""

    name: str
    host_ip: str = "127.0.0.1"
    max_pods: int = 110
    kubelet_port: int | None = None
    """Of its API; None if it has none."""
    log_url: str = ""
    """Where the embedded API server gets logs; empty beside others."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    instance: str = ""
    """Of the state directory: another node of this name has another one."""


def capacity(identity: Identity) -> dict[str, str]:
    """The machine's resources, all of which Pods may use."""
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{_memory_bytes() // 1024}Ki",
        "pods": str(identity.max_pods),
    }


def own_address(server: str) -> str:
    """The address of this machine from which a URL is reached; nothing is sent."""
    parts = urlsplit(server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((parts.hostname or "127.0.0.1", parts.port or 443))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def node_name(config: NodeConfig) -> str:
    """The node's name, which must survive a change of host name: Pods are bound to it."""
    remembered = config.state / "node-name"
    if config.node_name is None and remembered.is_file():
        return remembered.read_text().strip()
    name = config.node_name or _host_name()
    remembered.write_text(f"{name}\n")
    return name


def node_instance(config: NodeConfig) -> str:
    """An identifier that survives restarts, as long as the state directory does."""
    remembered = config.state / "node-instance"
    if not remembered.is_file():
        remembered.write_text(f"{uuid.uuid4()}\n")
    return remembered.read_text().strip()


def _host_name() -> str:
    """The host name, converted to a valid object name: `My_Laptop` becomes `my-laptop`."""
    return re.sub(r"[^a-z0-9.]+", "-", socket.gethostname().lower()).strip("-.") or "localhost"


log = logging.getLogger(__name__)


class Registration:
    """Maintains the Node object, and its heartbeats until cancelled.

    In a cluster, a heartbeat is the renewal of a Lease, and the status is written rarely. A server without
    the namespace of such Leases (the embedded one) gets the status each time.
    """

    def __init__(self, client: cluster.Client, identity: Identity, heartbeat_s: float) -> None:
        self._client = client
        self._identity = identity
        self._heartbeat_s = heartbeat_s
        self._ready_since = timestamps.seconds(time.time())
        self._lease: api.Lease | None = None
        self._has_leases = True
        self._written_at = 0.0

    async def register(self) -> None:
        """Create or take over the Node object, and report Ready.

        Raises ConfigurationError if another node of this name seems to run.
        """
        identity = self._identity
        annotations = {marks.NODE_INSTANCE: identity.instance}
        if identity.log_url:
            annotations[marks.LOG_ENDPOINT] = identity.log_url
        labels = {
            "kubernetes.io/hostname": identity.name,
            "kubernetes.io/os": platform.system().lower(),
            "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            **identity.labels,
        }
        meta = {"name": identity.name, "annotations": annotations, "labels": labels}
        spec = {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in identity.taints]}
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec}
        try:
            await self._client.create_manifest(manifest)
        except cluster.AlreadyExists:
            await self._check_that_no_other_runs()
            # Its taints stay: an operator may have cordoned it, and so may the control plane.
            changed = {"metadata": {"annotations": annotations, "labels": labels}}
            await self._client.patch(api.Node, identity.name, None, changed)
        await self._write_status(ready=True)
        await self._renew()

    async def _check_that_no_other_runs(self) -> None:
        """Two nodes of one name would both run every Pod. Raises ConfigurationError."""
        name = self._identity.name
        found = await self._client.get_manifest(api.Node.resource, name)
        instance = found["metadata"].get("annotations", {}).get(marks.NODE_INSTANCE)
        ready = [each for each in found.get("status", {}).get("conditions", []) if each["type"] == "Ready"]
        if instance in (None, self._identity.instance) or not ready or ready[0]["status"] != "True":
            return
        heartbeat = ready[0].get("lastHeartbeatTime") or ready[0].get("lastTransitionTime", "")
        with contextlib.suppress(cluster.NotFound):
            lease = await self._client.get(api.Lease, name, LEASE_NAMESPACE)
            heartbeat = max(heartbeat, lease.spec.renew_time or "")
        age_s = time.time() - timestamps.parse(heartbeat) if heartbeat else LEASE_S
        if age_s < LEASE_S:
            raise cluster.ConfigurationError(
                f"another node named {name} sent a heartbeat {max(age_s, 0):.0f} s ago, from another state "
                f"directory: choose another name with --node-name; if that node is gone for good, try again "
                f"{LEASE_S} s after its last heartbeat"
            )

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await asyncio.sleep(self._heartbeat_s)
            try:
                await self._renew()
                if await self._needs_status():
                    await self._write_status(ready=True)
            except cluster.NotFound:
                log.warning("the Node object %s was deleted; creating it again", self._identity.name)
                await self._register_again()
            except cluster.ApiError as error:
                log.warning("could not write the node's heartbeat: %s", error)

    async def leave(self) -> None:
        """Report that the node stops. Its object and its Pods stay."""
        try:
            await self._write_status(ready=False)
        except cluster.ApiError as error:
            log.info("could not report that the node stops: %s", error)

    async def _register_again(self) -> None:
        try:
            await self.register()
        except (cluster.ApiError, cluster.ConfigurationError) as error:
            log.warning("could not create the Node object: %s", error)

    async def _needs_status(self) -> bool:
        """Whether to write the status: it is time, or the control plane has lost faith in the node.

        Raises NotFound if the Node is gone.
        """
        if not self._has_leases or time.monotonic() - self._written_at >= STATUS_S:
            return True
        node = await self._client.get(api.Node, self._identity.name)
        return not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)

    async def _renew(self) -> None:
        """Raises NotFound if the Node is gone."""
        if not self._has_leases:
            return
        spec = api.LeaseSpec(
            holder_identity=self._identity.name,
            lease_duration_seconds=LEASE_S,
            renew_time=timestamps.microseconds(time.time()),
        )
        try:
            if self._lease is None:
                self._lease = await self._client.get(api.Lease, self._identity.name, LEASE_NAMESPACE)
            self._lease = await self._client.replace(msgspec.structs.replace(self._lease, spec=spec))
        except cluster.Conflict:
            self._lease = None  # read it again with the next heartbeat
        except cluster.NotFound:
            self._lease = await self._new_lease(spec)

    async def _new_lease(self, spec: api.LeaseSpec) -> api.Lease | None:
        name = self._identity.name
        node = await self._client.get(api.Node, name)
        owner = api.OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
        meta = api.ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=[owner])
        try:
            return await self._client.create(api.Lease(metadata=meta, spec=spec))
        except cluster.NotFound:
            self._has_leases = False  # the namespace does not exist
            return None

    async def _write_status(self, *, ready: bool) -> None:
        now = timestamps.seconds(time.time())
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "NodeReady" if ready else "NodeStopped",
            "message": "the node runs Pods as local processes" if ready else "the node was stopped",
            "lastHeartbeatTime": now,
            "lastTransitionTime": self._ready_since if ready else now,
        }
        resources = capacity(self._identity)
        port = self._identity.kubelet_port
        status = {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}} if port else None,
            "capacity": resources,
            "allocatable": resources,
            "conditions": [condition],
            # No host name: API servers prefer it by default, and often cannot resolve it.
            "addresses": [{"type": "InternalIP", "address": self._identity.host_ip}],
            "nodeInfo": {
                "kubeletVersion": f"headgate-{metadata.version('headgate')}",
                "operatingSystem": platform.system().lower(),
                "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                "kernelVersion": platform.release(),
                "osImage": platform.platform(),
                "containerRuntimeVersion": "process://",
            },
        }
        await self._client.patch_status(api.Node, self._identity.name, None, status)
        self._written_at = time.monotonic()


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""As Go and Kubernetes name them."""


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
