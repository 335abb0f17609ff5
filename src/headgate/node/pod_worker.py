"""Runs one Pod: carries out the instructions of its life, reports events to it, and writes its status."""

import asyncio
import logging
import time
from collections.abc import Sequence

import msgspec

from headgate import api, cluster
from headgate.api import marks
from headgate.kubeschema import timestamps
from headgate.node import (
    container_starts,
    environment,
    external,
    hooks,
    pod_life,
    pod_spec,
    pod_status,
    pod_volumes,
    probe_schedule,
    prober,
    processes,
    status_writer,
    unsupported,
)
from headgate.node.pod_context import Placement, Tools

log = logging.getLogger(__name__)

_LAST_WRITE_S = 2.0
_FORCED_GRACE_S = 2.0
"""Grace period of processes whose Pod was removed from the API without waiting for them."""

_REPLACED = (
    "this machine allows no mounts: in commands, arguments and variables, mountPaths are replaced by the "
    "directories of the volumes, which are not read-only"
)
_DELETE_BACKOFF = cluster.Backoff(base_s=0.1, cap_s=5.0)


class PodWorker:
    """Owns the processes of one Pod from its binding to this node until it is gone from the API."""

    def __init__(self, pod: api.Pod, placement: Placement, tools: Tools) -> None:
        self._pod = pod
        self._placement = placement
        self._tools = tools
        self._wake = asyncio.Event()
        self._stop: tuple[pod_life.StopReason, float] | None = None
        self._gone = False
        self._running: dict[str, processes.RunningContainer] = {}
        self._pre_stops: dict[str, asyncio.Task[None]] = {}
        self._starts: container_starts.ContainerStarts | None = None
        self.observe(pod)

    @property
    def pod(self) -> api.Pod:
        return self._pod

    def container(self, name: str) -> processes.RunningContainer | None:
        """What runs, or has run, as a container."""
        return self._running.get(name)

    async def start_command(
        self, container: str, command: Sequence[str], stdio: processes.Stdio
    ) -> processes.Process:
        """Start a command beside a container that has started. Raises StartError."""
        assert self._starts is not None
        return await self._starts.start_command(container, command, stdio)

    def address(self, port: int) -> tuple[str, int]:
        """Where a port of the Pod is reached."""
        server = self._placement.server
        if server is not None:
            return server.host, server.port or port
        return self._placement.pod_ip, self._placement.port or port

    # Events from the node

    def observe(self, pod: api.Pod) -> None:
        """A newer state of the Pod: it may be deleted, its server may have moved, its labels and annotations
        may be in volumes, and others write its status."""
        moved = _server(pod) != _server(self._pod)
        before, self._pod = self._pod, pod
        if pod.status != before.status:
            self._wake.set()
        if self._starts is not None and (before.metadata.labels, before.metadata.annotations) != (
            pod.metadata.labels,
            pod.metadata.annotations,
        ):
            self._starts.volumes.changed()
        self._wake.set()  # conditions of others may be readiness gates
        if pod.metadata.deletion_timestamp is not None:
            grace_s = pod.metadata.deletion_grace_period_seconds
            default_s = pod.spec.termination_grace_period_seconds
            self.stop(pod_life.StopReason.DELETED, default_s if grace_s is None else grace_s)
        elif moved:
            self.stop(pod_life.StopReason.MOVED, pod.spec.termination_grace_period_seconds)

    def gone(self) -> None:
        """The Pod is no longer in the API."""
        self._gone = True
        self.stop(pod_life.StopReason.DELETED, _FORCED_GRACE_S)

    def stop(self, reason: pod_life.StopReason, grace_s: float) -> None:
        self._stop = (reason, grace_s)
        self._wake.set()

    # The Pod's life

    async def run(self) -> None:
        """Run until the Pod is gone, or stopped with the node."""
        try:
            manifest = await self._tools.client.get_manifest(
                api.Pod.resource, self._pod.metadata.name, self._pod.metadata.namespace
            )
        except cluster.NotFound:
            return
        self._report_unsupported(manifest)
        epoch_s = float(round(time.time() - time.monotonic()))
        init = msgspec.convert(
            manifest.get("status", {}).get("initContainerStatuses", []), list[api.ContainerStatus]
        )
        spec = pod_spec.decode(manifest["spec"])
        self._starts = container_starts.ContainerStarts(
            lambda: self._pod, spec, self._placement, self._tools, self._warn
        )
        sidecars = {each.name for each in spec.init_containers if each.restart_policy == "Always"}
        mounts_volumes = bool(self._starts.volumes) and self._placement.server is None
        life = pod_life.PodLife(
            spec,
            time.monotonic(),
            pod_status.history(self._pod, sidecars, init, epoch_s),
            waits_for_volumes=mounts_volumes,
            deadline=self._deadline(spec, epoch_s),
        )
        place = pod_status.Place(
            self._placement.pod_ip,
            self._tools.identity.host_ip,
            time.monotonic(),
            epoch_s,
            str(self._placement.server or ""),
            pod_status.constants(spec, self._tools.identity.host_ip, manifest.get("status") or {}),
            [each.condition_type for each in spec.readiness_gates],
        )
        writer = status_writer.StatusWriter(
            str(self._pod.metadata.key), self._pod.status, self._write(life, place), self._tools.rng
        )
        async with asyncio.TaskGroup() as tasks:
            helping = [tasks.create_task(writer.run())]
            if mounts_volumes:
                helping.append(tasks.create_task(self._provide_volumes(life, self._starts.volumes)))
            await self._drive(life, place, writer, tasks)
            if not self._gone:
                await writer.flush(_LAST_WRITE_S)
            for task in helping:
                task.cancel()
        if life.stopping is pod_life.StopReason.DELETED and not self._gone:
            await self._delete()

    def _deadline(self, spec: pod_spec.PodSpec, epoch_s: float) -> float | None:
        if spec.active_deadline_seconds is None:
            return None
        started = self._pod.status.start_time
        began = time.monotonic() if started is None else timestamps.parse(started) - epoch_s
        return began + spec.active_deadline_seconds

    async def _drive(
        self,
        life: pod_life.PodLife,
        place: pod_status.Place,
        writer: status_writer.StatusWriter,
        tasks: asyncio.TaskGroup,
    ) -> None:
        status = self._pod.status
        while True:
            self._wake.clear()
            if self._stop is not None:
                life.stop(*self._stop)
            now = time.monotonic()
            for instruction in life.decide(now):
                if isinstance(instruction, pod_life.Start):
                    tasks.create_task(self._run_container(life, instruction))
                elif isinstance(instruction, pod_life.PreStop):
                    hook = tasks.create_task(self._pre_stop(life, instruction))
                    self._pre_stops[instruction.container] = hook
                else:
                    self._send(instruction)
            status = pod_status.picture(life, place, status, now, self._pod.status.conditions)
            writer.saw(self._pod.status)
            writer.show(status, pod_status.init_statuses(life, place))
            if life.stopping is not None and not life.active:
                return
            await self._pause(life.wake_at())

    async def _provide_volumes(self, life: pod_life.PodLife, volumes: pod_volumes.PodVolumes) -> None:
        """Keep the volumes current until cancelled."""
        followed, metadata = self._tools.followed, self._pod.metadata

        def report(problem: str) -> None:
            if problem:
                self._warn("FailedMount", problem)
                life.lacks_volumes(problem)
            else:
                life.has_volumes()
            self._wake.set()

        if not self._tools.mounting.is_real:
            self._tell("MountPathsReplaced", _REPLACED)
        followed.follow(metadata.uid, metadata.namespace, volumes.objects(), volumes.changed)
        try:
            await volumes.run(report)
        finally:
            followed.forget(metadata.uid)

    async def _pause(self, until: float | None) -> None:
        # The loop's clock is the monotonic one, so the times of the life can be used directly.
        delay_s = None if until is None else max(0.0, until - time.monotonic())
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    # One container

    async def _run_container(self, life: pod_life.PodLife, start: pod_life.Start) -> None:
        name = start.container
        spec = self._spec(name)
        try:
            running = await self._launch(name, start.run)
        except environment.NoCommandError as error:
            life.cannot_start(name, "NoCommand", str(error))
            self._warn("Failed", str(error))
        except environment.ContainerConfigError as error:
            life.not_configured(name, "CreateContainerConfigError", str(error), time.monotonic())
            self._warn("Failed", f"container {name}: {error}")
        except (processes.StartError, OSError) as error:
            life.start_failed(name, "RunContainerError", str(error), time.monotonic())
            self._warn("Failed", f"container {name}: {error}")
        else:
            self._running[name] = running
            life.started(name, running.container_id, time.monotonic())
            self._tell("Started", f"Started container {name}")
            self._wake.set()
            await self._attend(life, spec, start.run, running)
        finally:
            self._wake.set()

    async def _attend(
        self,
        life: pod_life.PodLife,
        spec: pod_spec.Container,
        run: int,
        running: processes.RunningContainer,
    ) -> None:
        """Probe a running container until it ends."""

        def tell(kind: probe_schedule.ProbeKind, answer: prober.Answer) -> None:
            probe = spec.startup_probe if kind is probe_schedule.ProbeKind.STARTUP else spec.liveness_probe
            grace_s = None if probe is None else probe.termination_grace_period_seconds
            life.probed(spec.name, kind, answer.healthy, answer.detail, grace_s)
            self._wake.set()
            if not answer.healthy:
                self._warn("Unhealthy", f"{kind.capitalize()} probe of {spec.name} failed: {answer.detail}")

        external_server = self._placement.server is not None
        async with asyncio.TaskGroup() as tasks:
            helping = [tasks.create_task(self._post_start(life, spec))]
            # External servers are not restarted by the node.
            probing = prober.probe(
                spec, self._target(spec), self._execute(spec), tell, liveness=not external_server
            )
            helping.append(tasks.create_task(probing))
            ended = await running.wait()
            # Reported first: until then, traffic goes to a dead process.
            message = self._starts.last_words(spec.name, run, failed=ended.code != 0) if self._starts else ""
            life.exited(spec.name, ended.code, ended.signal, time.monotonic(), message)
            self._wake.set()
            if (hook := self._pre_stops.pop(spec.name, None)) is not None:
                helping.append(hook)
            for task in helping:
                task.cancel()
        if life.stopping is None and ended.code != 0:
            self._warn("BackOff", f"container {spec.name} ended with exit code {ended.code}")

    async def _post_start(self, life: pod_life.PodLife, spec: pod_spec.Container) -> None:
        hook, problem = spec.lifecycle.post_start, ""
        if hook is None:
            return
        if self._placement.server is None:  # an external server is not started by the node
            problem = await hooks.run(hook, self._target(spec), self._execute(spec), hooks.NO_LIMIT_S)
        if problem:
            self._warn("FailedPostStartHook", f"container {spec.name}: {problem}")
        life.post_start_ended(spec.name, problem)
        self._wake.set()

    async def _pre_stop(self, life: pod_life.PodLife, instruction: pod_life.PreStop) -> None:
        spec = self._spec(instruction.container)
        hook = spec.lifecycle.pre_stop
        if hook is not None and self._placement.server is None:
            problem = await hooks.run(hook, self._target(spec), self._execute(spec), instruction.grace_s)
            if problem:
                self._warn("FailedPreStopHook", f"container {spec.name}: {problem}")
        life.pre_stop_ended(instruction.container)
        self._wake.set()

    def _execute(self, spec: pod_spec.Container) -> prober.Execute:
        async def execute(command: Sequence[str], limit_s: float) -> prober.Answer:
            if self._placement.server is not None:
                return prober.Answer(False, "the node cannot run commands in an external server")
            assert self._starts is not None
            return await self._starts.execute(spec.name, command, limit_s)

        return execute

    def _target(self, spec: api.Container) -> prober.ProbeTarget:
        ports = {each.name: each.container_port for each in spec.ports if each.name}
        server = self._placement.server
        if server is not None:
            return prober.ProbeTarget(server.host, ports, server.port)
        return prober.ProbeTarget(self._placement.pod_ip, ports, self._placement.port)

    async def _launch(self, name: str, run: int) -> processes.RunningContainer:
        if self._placement.server is not None:
            return external.ExternalServer(self._placement.server)
        assert self._starts is not None
        return await self._starts.start(name, run)

    def _send(self, instruction: pod_life.Signal) -> None:
        running = self._running.get(instruction.container)
        if running is not None:
            self._tell(
                "Killing", f"Stopping container {instruction.container} with {instruction.number.name}"
            )
            running.send(instruction.number)

    # The API

    def _write(self, life: pod_life.PodLife, place: pod_status.Place) -> status_writer.Write:
        metadata = self._pod.metadata

        async def write(status: api.PodStatus) -> None:
            patch = pod_status.patch(status, place, pod_status.init_statuses(life, place))
            # With its uid, the patch cannot hit a newer Pod of the same name.
            await self._tools.client.patch(
                api.Pod,
                metadata.name,
                metadata.namespace,
                {"metadata": {"uid": metadata.uid}, "status": patch},
                subresource="status",
            )

        return write

    async def _delete(self) -> None:
        """The processes have ended: remove the Pod from the API."""
        metadata = self._pod.metadata
        failures = 0
        while not self._gone:
            try:
                await self._tools.client.delete(
                    api.Pod, metadata.name, metadata.namespace, grace_s=0, uid=metadata.uid
                )
                return
            except (cluster.NotFound, cluster.Conflict):
                return
            except cluster.ApiError as error:
                failures += 1
                log.warning("Pod %s has ended but was not removed: %s", metadata.key, error)
                await asyncio.sleep(_DELETE_BACKOFF.delay_s(failures, self._tools.rng))

    def _report_unsupported(self, manifest: cluster.Json) -> None:
        fields = unsupported.unsupported(manifest.get("spec", {}))
        if fields and _server(self._pod) is None:
            names = ", ".join(fields)
            self._warn("Unsupported", f"on one machine these fields have no effect: {names}")

    def _spec(self, name: str) -> pod_spec.Container:
        assert self._starts is not None
        return self._starts.container(name)

    def _tell(self, reason: str, message: str) -> None:
        self._tools.events.record(self._pod, cluster.EventType.NORMAL, reason, message)

    def _warn(self, reason: str, message: str) -> None:
        self._tools.events.record(self._pod, cluster.EventType.WARNING, reason, message)


def _server(pod: api.Pod) -> str | None:
    return pod.metadata.annotations.get(marks.ADDRESS)
