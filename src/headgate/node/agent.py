"""The node agent: assigns Pods without a node to itself, and runs a worker for each of its own."""

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from headgate import api, cluster
from headgate.api import marks
from headgate.kubeschema import timestamps
from headgate.node import addresses, external, pod_life, pod_status
from headgate.node.environment import ContainerConfigError
from headgate.node.pod_context import Placement, Tools
from headgate.node.pod_worker import PodWorker

log = logging.getLogger(__name__)

_RETRY_S = 5.0


class Agent:
    """Follows Pods and owns their workers. `run` works until cancelled; `drain` ends the processes first."""

    def __init__(
        self,
        tools: Tools,
        pods: cluster.Informer[api.Pod],
        pool: addresses.AddressPool | None,
        *,
        binds: bool = True,
    ) -> None:
        """`binds`: whether to take Pods without a node, as the only scheduler."""
        self._tools = tools
        self._pods = pods
        self._pool = pool
        self._binds = binds
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._workers: dict[str, PodWorker] = {}
        self._ended = asyncio.Event()
        self._draining = False

    async def run(self) -> None:
        """Requires a running informer; returns when drained and cancelled."""
        await self._pods.wait_synced()
        self._keep_addresses()
        self._forget_old_logs()
        await self._remove_old_directories()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            end = self._pods.subscribe(self._heard)
            try:
                await cluster.run_workers(self._queue, self._reconcile)
            finally:
                end()

    async def drain(self, timeout_s: float) -> None:
        """Stop the processes of all Pods concurrently, each with its grace period, at most `timeout_s`."""
        self._draining = True
        for worker in self._workers.values():
            grace_s = min(worker.pod.spec.termination_grace_period_seconds, timeout_s)
            worker.stop(pod_life.StopReason.NODE_SHUTDOWN, grace_s)
        while self._workers:
            self._ended.clear()
            await self._ended.wait()

    @property
    def pods(self) -> int:
        """How many Pods have a worker."""
        return len(self._workers)

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a Pod."""
        key = api.ObjectKey(namespace, name)
        return next((each for each in self._workers.values() if each.pod.metadata.key == key), None)

    def known_pods(self) -> list[api.Pod]:
        """The Pods of this node."""
        name = self._tools.identity.name
        return [pod for pod in self._pods.items() if pod.spec.node_name == name]

    def _heard(self, change: cluster.Change[api.Pod]) -> None:
        pod = change.object
        worker = self._workers.get(pod.metadata.uid)
        if change.new is not None:
            self._queue.add(pod.metadata.key)
        elif worker is not None:
            worker.gone()
        elif pod.spec.node_name == self._tools.identity.name:
            self._forget(pod)

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        pod = self._pods.get(*key)
        if pod is None or self._draining:
            return None
        if pod.spec.node_name not in ("", self._tools.identity.name):
            return None
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.observe(pod)
        elif pod.metadata.deletion_timestamp is not None:
            await self._remove(pod)
        elif not pod.spec.node_name:
            if self._binds:
                await self._bind(pod)
        elif not pod.ended:
            return await self._start(pod)
        return None

    async def _bind(self, pod: api.Pod) -> None:
        """Assign the Pod to this node; with a single machine, there is no choice."""
        name = self._tools.identity.name
        await self._tools.client.bind(pod, name)
        message = f"Successfully assigned {pod.metadata.key} to {name}"
        self._tools.events.record(pod, cluster.EventType.NORMAL, "Scheduled", message)

    async def _remove(self, pod: api.Pod) -> None:
        """Delete a terminating Pod that has no process here."""
        with contextlib.suppress(cluster.NotFound, cluster.Conflict):
            await self._tools.client.delete(
                api.Pod, pod.metadata.name, pod.metadata.namespace, grace_s=0, uid=pod.metadata.uid
            )
        self._forget(pod)

    async def _start(self, pod: api.Pod) -> float | None:
        try:
            placement = await self._place(pod)
        except (addresses.AddressesExhaustedError, ContainerConfigError) as error:
            await self._refuse(pod, str(error))
            return _RETRY_S
        if pod.metadata.uid not in self._workers and not self._draining:
            worker = self._workers[pod.metadata.uid] = PodWorker(pod, placement, self._tools)
            self._tasks.create_task(self._work(worker))
        return None

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker; if it fails, only its own Pod is affected, and retried."""
        pod = worker.pod
        again_s = 0.0
        try:
            await worker.run()
        except Exception:
            log.exception("the worker of Pod %s failed and is restarted", pod.metadata.key)
            again_s = _RETRY_S
        finally:
            self._workers.pop(pod.metadata.uid, None)
            self._ended.set()
        current = self._pods.get(*pod.metadata.key)
        if current is None or current.metadata.uid != pod.metadata.uid:
            self._forget(pod)
        else:
            self._queue.add_after(pod.metadata.key, again_s)

    # Addresses

    async def _place(self, pod: api.Pod) -> Placement:
        given = pod.metadata.annotations.get(marks.ADDRESS)
        if given is not None:
            server = external.address_of(given)
            return Placement(server.host, server=server)
        if self._pool is None:
            return Placement(addresses.SHARED_ADDRESS, await self._own_port(pod))
        ports = [port.container_port for container in pod.spec.containers for port in container.ports]
        uid = pod.metadata.uid
        return Placement(self._pool.allocate(uid, lambda address: addresses.ports_are_free(address, ports)))

    async def _own_port(self, pod: api.Pod) -> int:
        """The Pod's port on the shared address, stored in the Pod before anything listens there."""
        known = pod.metadata.annotations.get(marks.PORT, "")
        if known.isdigit():
            return int(known)
        port = addresses.unused_port()
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {marks.PORT: str(port)}}}
        await self._tools.client.patch(api.Pod, pod.metadata.name, pod.metadata.namespace, patch)
        return port

    def _keep_addresses(self) -> None:
        """Reserve the addresses of existing Pods before others are allocated."""
        for pod in self._pods.items():
            mine = pod.spec.node_name == self._tools.identity.name
            if mine and pod.status.pod_ip and self._pool is not None:
                self._pool.reserve(pod.metadata.uid, pod.status.pod_ip)

    async def _refuse(self, pod: api.Pod, why: str) -> None:
        """Report in the status that the Pod cannot be placed."""
        now = timestamps.seconds(time.time())
        condition = api.Condition(
            type="Ready", status="False", reason="NotPlaced", message=why, last_transition_time=now
        )
        status = api.PodStatus(phase="Pending", conditions=[condition], reason="NotPlaced", message=why)
        if pod.status.message != why:
            patch = pod_status.patch(status, pod_status.Place("", self._tools.identity.host_ip, 0.0, 0.0))
            await self._tools.client.patch_status(api.Pod, pod.metadata.name, pod.metadata.namespace, patch)

    # Cleaning up

    def _forget(self, pod: api.Pod) -> None:
        if self._pool is not None:
            self._pool.release(pod.metadata.uid)
        metadata = pod.metadata
        self._tools.logs.forget(self._tools.logs.pod(metadata.namespace, metadata.name, metadata.uid))
        self._tasks.create_task(asyncio.to_thread(self._tools.directories.remove, metadata.uid))

    def _forget_old_logs(self) -> None:
        """Remove the logs of Pods that were deleted while the node was away."""
        kept = {_log_directory(self._tools, pod) for pod in self._pods.items()}
        for directory in self._tools.logs.pods():
            if directory not in kept:
                self._tools.logs.forget(directory)

    async def _remove_old_directories(self) -> None:
        """Remove the volumes of Pods that were deleted while the node was away."""
        directories = self._tools.directories
        for uid in directories.uids() - {pod.metadata.uid for pod in self._pods.items()}:
            await asyncio.to_thread(directories.remove, uid)


def _log_directory(tools: Tools, pod: api.Pod) -> Path:
    return tools.logs.pod(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
