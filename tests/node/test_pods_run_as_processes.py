"""Pods of the API run as local processes: real server, real client, real processes."""

import asyncio
import os
import signal
import time

import pytest

from headgate import api, cluster

READY = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 10}


def pid_of(pod: api.Pod) -> int:
    return int(pod.status.container_statuses[0].container_id.removeprefix("process://"))


async def test_a_pod_becomes_ready_at_an_address_of_its_own(machine, pod_manifest):
    """Two Pods listen on one port, each on its own loopback address, and become ready by their probes."""
    async with machine.node(node_name="here"):
        for name in ("one", "two"):
            await machine.client.create_manifest(pod_manifest(name, container={"readinessProbe": READY}))
        pods = await machine.until_ready(2)
        addresses = {pod.status.pod_ip for pod in pods}
        assert len(addresses) == 2
        assert all(address.startswith("127.64.") for address in addresses)
        for pod in pods:
            assert (pod.spec.node_name, pod.status.phase) == ("here", "Running")
            _, writer = await asyncio.open_connection(pod.status.pod_ip, 8000)
            writer.close()


async def test_a_killed_process_is_unready_at_once_and_starts_again(machine, pod_manifest):
    """SIGKILL takes a Pod out of rotation long before its next probe, and a new process brings it back."""
    async with machine.node():
        probe = READY | {"periodSeconds": 3600, "initialDelaySeconds": 1}
        await machine.client.create_manifest(pod_manifest(container={"readinessProbe": probe}))
        [pod] = await machine.until_ready()
        os.kill(pid_of(pod), signal.SIGKILL)
        await machine.until(lambda pods: not pods[0].ready)
        [again] = await machine.until_ready()
        status = again.status.container_statuses[0]
        assert status.restart_count == 1
        assert status.last_state.terminated.exit_code == 137
        assert again.status.pod_ip == pod.status.pod_ip
        assert pid_of(again) != pid_of(pod)


async def test_a_deleted_pod_gets_its_grace_and_goes(machine, pod_manifest):
    """SIGTERM first; a process that ignores it is killed after the grace period, and the object goes last."""
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(script=stubborn))
        [pod] = await machine.until_ready()
        await _until_logged(machine, "one", "main", "up\n")
        asked = time.monotonic()
        await machine.client.delete(api.Pod, "one", "default")
        await machine.until(lambda pods: not pods)
        assert time.monotonic() - asked > 0.9
        with pytest.raises(ProcessLookupError):
            os.kill(pid_of(pod), 0)


async def test_a_pod_without_a_command_says_what_it_needs(machine, pod_manifest):
    """An image alone can't run here: the container waits, and its message says why."""
    async with machine.node():
        container = {"command": [], "image": "vllm/vllm-openai:v0.11.0"}
        await machine.client.create_manifest(pod_manifest(container=container))
        [pod] = await machine.until(lambda pods: _waiting(pods[0]) == "NoCommand")
        message = pod.status.container_statuses[0].state.waiting.message
        assert "vllm/vllm-openai:v0.11.0" in message
        assert "command" in message


async def test_a_container_that_no_system_can_start_leaves_the_others_alone(machine, pod_manifest):
    """Kubernetes accepts a NUL in a command; the operating system does not."""
    async with machine.node():
        manifest = pod_manifest()
        impossible = {"name": "impossible", "command": ["/bin/a\0b"]}
        manifest["spec"]["containers"].append(impossible)
        await machine.client.create_manifest(manifest)

        def statuses(pods):
            return {each.name: each for each in pods[0].status.container_statuses}

        pods = await machine.until(
            lambda pods: (
                pods
                and (found := statuses(pods))
                and found["main"].state.running is not None
                and found["impossible"].state.waiting is not None
                and found["impossible"].state.waiting.reason == "RunContainerError"
            )
        )
        assert "null byte" in statuses(pods)["impossible"].state.waiting.message
        assert statuses(pods)["main"].restart_count == 0


async def test_a_crashing_container_backs_off(machine, pod_manifest):
    """A container that ends at once is started again and again, ever later, and says CrashLoopBackOff."""
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(script="raise SystemExit(3)"))
        [pod] = await machine.until(
            lambda pods: _waiting(pods[0]) == "CrashLoopBackOff" and _restarts(pods[0]) >= 2
        )
        assert pod.status.container_statuses[0].last_state.terminated.exit_code == 3
        assert await machine.events("BackOff")


async def test_a_pod_that_may_end_ends(machine, pod_manifest):
    """With restartPolicy Never a Pod runs once: init container first, then to its end; it Succeeded."""
    init = {"name": "first", "command": ["python3", "-S", "-c", "print('prepared')"]}
    async with machine.node():
        manifest = pod_manifest(script="print('done')", restartPolicy="Never", initContainers=[init])
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until(lambda pods: pods[0].status.phase == "Succeeded")
        assert pod.status.container_statuses[0].state.terminated.exit_code == 0
        assert await _log(machine, "one", "first") == "prepared\n"


async def test_unsupported_fields_are_reported(machine, pod_manifest):
    """Fields that mean something but do nothing here are named in a Warning event."""
    async with machine.node():
        manifest = pod_manifest(volumes=[{"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}])
        await machine.client.create_manifest(manifest)
        [message] = await machine.events("Unsupported")
        assert "spec.volumes[cache].emptyDir.sizeLimit" in message


async def test_logs_reach_kubectl(machine, pod_manifest):
    """The log subresource gives the container's output, with --previous that of the run before."""
    script = "import os, time; print('run', os.environ['POD_NAME'], flush=True); time.sleep(60)"
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(script=script))
        [pod] = await machine.until_ready()
        await _until_logged(machine, "one", "main", "run one\n")
        os.kill(pid_of(pod), signal.SIGKILL)
        await machine.until(lambda pods: _restarts(pods[0]) == 1 and pods[0].ready)
        assert await _log(machine, "one", "main", previous="true") == "run one\n"


async def test_another_address_can_be_given(machine, pod_manifest):
    """A Pod with an address is an endpoint without a process: ready by its probe of the server elsewhere."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with machine.node(), server:
        manifest = pod_manifest(
            annotations={"headgate.dev/address": f"127.0.0.1:{port}"},
            container={"command": [], "readinessProbe": {**READY, "periodSeconds": 1}},
        )
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until_ready()
        assert pod.status.pod_ip == "127.0.0.1"
        assert pod.status.container_statuses[0].container_id == f"external://127.0.0.1:{port}"
        assert pod.status.message == f"served from 127.0.0.1:{port}, outside of this node"
        patch = {"metadata": {"annotations": {"headgate.dev/address": "127.0.0.1:9"}}}
        await machine.client.patch(api.Pod, "one", "default", patch)
        [pod] = await machine.until(lambda pods: not pods[0].ready)
        assert "its readiness probe fails" in pod.status.message
        await machine.client.delete(api.Pod, "one", "default")
        await machine.until(lambda pods: not pods)


async def test_a_wrong_address_is_refused_in_the_status(machine, pod_manifest):
    """An address that is none is named in the Pod's status, with the annotation and the fix."""
    async with machine.node():
        manifest = pod_manifest(annotations={"headgate.dev/address": "http://host/v1"})
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until(lambda pods: pods[0].status.reason == "NotPlaced")
        assert "headgate.dev/address" in pod.status.message


def _waiting(pod: api.Pod) -> str | None:
    for status in pod.status.container_statuses:
        if status.state.waiting is not None:
            return status.state.waiting.reason
    return None


def _restarts(pod: api.Pod) -> int:
    return sum(status.restart_count for status in pod.status.container_statuses)


async def _log(machine, pod: str, container: str, **query: str) -> str:
    path = api.Pod.resource.path("default", pod, "log")
    try:
        async with machine.client.stream(path, {"container": container, **query}, 5.0) as chunks:
            return b"".join([chunk async for chunk in chunks]).decode()
    except cluster.ApiError:
        return ""


async def _until_logged(machine, pod: str, container: str, text: str) -> None:
    async with asyncio.timeout(60):
        while await _log(machine, pod, container) != text:
            await asyncio.sleep(0.05)
