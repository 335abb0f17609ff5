"""Volumes of Pods: a real server, real processes, and both ways of mounting."""

import asyncio
import os
import shutil
import sys

import msgspec
import pytest

from headgate import api
from headgate.node import mounts
from headgate.node.mounts import Mounting

WAIT = "sleep 1000"
SETTINGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "default"},
    "data": {"mode": "fast", "run.sh": "#!/bin/sh\necho ran $1\nsleep 1000\n"},
}


@pytest.fixture(scope="session")
def real() -> Mounting:
    """The way of this machine."""
    return asyncio.run(mounts.detect())


@pytest.fixture(params=["real", "user-namespace", "substitution"])
def mounting(request, real) -> Mounting:
    """Every way that works on this machine."""
    if request.param == "substitution":
        return Mounting.SUBSTITUTION
    if not real.is_real:
        assert sys.platform != "linux" or not shutil.which("unshare"), "mounts are possible on Linux"
    return real if request.param == "real" else Mounting.USER_NAMESPACE


def shell(script: str, *volume_mounts: dict, **fields) -> dict:
    return {"command": ["sh", "-c", script], "volumeMounts": list(volume_mounts), **fields}


async def test_settings_are_files(machine, pod_manifest, mounting):
    """A ConfigMap is a directory of files; its scripts run if their mode allows it."""
    volume = {"name": "s", "configMap": {"name": "settings", "defaultMode": 0o755}}
    container = {
        "command": ["/etc/none/run.sh"],
        "args": ["$(cat /etc/none/mode)"],
        "volumeMounts": [{"name": "s", "mountPath": "/etc/none"}],
    }
    async with machine.node(mounting=mounting):
        await machine.client.create_manifest(SETTINGS)
        await machine.client.create_manifest(pod_manifest(container=container, volumes=[volume]))
        assert (await machine.log()).startswith("ran $(cat /")
    assert "none" not in os.listdir("/etc"), "mount points are not created on the machine"


async def test_containers_share_an_empty_directory(machine, pod_manifest, mounting):
    """What one container writes, the other one reads; all of it goes with the Pod."""
    volumes = [{"name": "d", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    both = [{"name": "d", "mountPath": "/none/data"}, {"name": "m", "mountPath": "/none/memory"}]
    writer = shell(f"echo one > /none/data/x; echo two > /none/memory/x; {WAIT}", *both)
    read = "until [ -s /none/memory/x ]; do sleep 0.1; done; cat /none/data/x /none/memory/x"
    reader = {"name": "reader"} | shell(f"{read}; {WAIT}", *both)
    async with machine.node(mounting=mounting):
        manifest = pod_manifest(container=writer, volumes=volumes)
        manifest["spec"]["containers"].append(reader)
        await machine.client.create_manifest(manifest)
        assert (await machine.log(container="reader")).endswith("one\ntwo\n")
        [pod] = await machine.pods()
        assert (machine.state / "pods" / pod.metadata.uid / "d" / "x").read_text() == "one\n"
        await machine.client.delete(api.Pod, "one", "default")
        await machine.until(lambda pods: not pods)
        while (machine.state / "pods" / pod.metadata.uid).exists():
            await asyncio.sleep(0.03)


async def test_only_real_mounts_are_read_only(machine, pod_manifest, mounting, tmp_path):
    """readOnly holds for real mounts; the other way says that it does not."""
    (tmp_path / "host").mkdir()
    volume = {"name": "h", "hostPath": {"path": str(tmp_path / "host"), "type": "Directory"}}
    mount = {"name": "h", "mountPath": "/none/h", "readOnly": True}
    container = shell(f"touch /none/h/x 2>/dev/null; echo $?; {WAIT}", mount)
    async with machine.node(mounting=mounting):
        await machine.client.create_manifest(pod_manifest(container=container, volumes=[volume]))
        done = (await machine.log()).strip() == "0"
        assert done == (tmp_path / "host" / "x").exists() == (not mounting.is_real)
        if not mounting.is_real:
            assert "not read-only" in (await machine.events("MountPathsReplaced"))[0]


async def test_a_part_of_a_volume(machine, pod_manifest, mounting):
    """subPath and subPathExpr mount a directory of the volume, which is created, or one of its files."""
    volumes = [{"name": "d", "emptyDir": {}}, {"name": "s", "configMap": {"name": "settings"}}]
    container = shell(
        f"echo hello > /none/mine/x; cat /none/all/of-one/x /none/mode; {WAIT}",
        {"name": "d", "mountPath": "/none/mine", "subPathExpr": "of-$(POD_NAME)"},
        {"name": "d", "mountPath": "/none/all"},
        {"name": "s", "mountPath": "/none/mode", "subPath": "mode"},
    )
    async with machine.node(mounting=mounting):
        await machine.client.create_manifest(SETTINGS)
        await machine.client.create_manifest(pod_manifest(container=container, volumes=volumes))
        while (text := await machine.log()).count("\n") < 1:
            await asyncio.sleep(0.03)
        assert text.startswith("hello\n")
        assert text.replace("hello\n", "", 1) in ("fast", "fast\n", "")


async def test_a_change_reaches_a_running_pod(machine, pod_manifest, mounting):
    """A new version of a ConfigMap, and new labels of the Pod, replace the files of a running container."""
    volumes = [
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"configMap": {"name": "settings", "items": [{"key": "mode", "path": "a/mode"}]}},
                    {"secret": {"name": "later", "optional": True}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
                        }
                    },
                ]
            },
        }
    ]
    show = "cd /none/v; last=; while :; do new=$(cat a/mode later labels 2>/dev/null | tr '\\n' ' ');"
    show += '[ "$new" = "$last" ] || echo "$new"; last=$new; sleep 0.1; done'
    container = shell(show, {"name": "all", "mountPath": "/none/v"})
    async with machine.node(mounting=mounting):
        await machine.client.create_manifest(SETTINGS)
        await machine.client.create_manifest(pod_manifest(container=container, volumes=volumes))
        await logged(machine, "fast")
        data = {"data": {"mode": "slow\n"}}
        await machine.client.patch(api.ConfigMap, "settings", "default", data)
        await logged(machine, "slow")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later", "namespace": "default"}}
        await machine.client.create_manifest(secret | {"stringData": {"later": "now\n"}})
        await logged(machine, "slow now")
        await machine.client.patch(api.Pod, "one", "default", {"metadata": {"labels": {"a": "b"}}})
        await logged(machine, 'slow now a="b"')


async def test_a_pod_waits_for_its_volumes(machine, pod_manifest):
    """It says which volume lacks what, in its status and in an event, and starts as soon as it exists."""
    volume = {"name": "s", "configMap": {"name": "settings"}}
    container = shell(f"cat /none/s/mode; echo; {WAIT}", {"name": "s", "mountPath": "/none/s"})
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(container=container, volumes=[volume]))
        [message] = await machine.events("FailedMount")
        assert message == 'volume "s": ConfigMap "settings" not found'
        [pod] = await machine.until(lambda pods: waiting(pods[0]).message == message)
        assert waiting(pod).reason == "ContainerCreating"
        await machine.client.create_manifest(SETTINGS)
        await machine.until_ready()
        assert (await machine.log()).startswith("fast")


async def test_data_outlives_the_pod_of_a_claim(machine, pod_manifest):
    """Beside the embedded API server, the name of a claim stands for a directory of the node."""
    volume = {"name": "c", "persistentVolumeClaim": {"claimName": "models"}}
    container = shell(
        f"echo again >> /none/c/x; cat /none/c/x; {WAIT}", {"name": "c", "mountPath": "/none/c"}
    )
    async with machine.node():
        for expected in ("again\n", "again\nagain\n"):
            await machine.client.create_manifest(pod_manifest(container=container, volumes=[volume]))
            async with asyncio.timeout(60):
                while await machine.log() != expected:
                    await asyncio.sleep(0.03)
            await machine.client.delete(api.Pod, "one", "default")
            await machine.until(lambda pods: not pods)


async def test_directories_of_pods_that_vanished_are_removed(machine, pod_manifest):
    """A Pod that was deleted after a kill -9 of its node leaves nothing behind."""
    volume = {"name": "d", "emptyDir": {}}
    container = shell(WAIT, {"name": "d", "mountPath": "/none/d"})
    words = [sys.executable, "-m", "headgate", "node", "--kubeconfig", str(machine.kubeconfig)]
    process = await asyncio.create_subprocess_exec(*words, "--state", str(machine.state.parent))
    await machine.client.create_manifest(pod_manifest(container=container, volumes=[volume]))
    [pod] = await machine.until_ready()
    directory = machine.state.parent / "node" / "pods" / pod.metadata.uid
    assert (directory / "d").is_dir()
    process.kill()
    await process.wait()
    await machine.client.delete(api.Pod, "one", "default", grace_s=0)
    async with machine.node():
        while directory.exists():
            await asyncio.sleep(0.03)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"csi": {"driver": "x"}}, "volumes of type csi are not supported on this node"),
        ({}, ""),
    ],
)
async def test_a_volume_without_a_type_is_an_empty_directory(machine, pod_manifest, source, problem):
    """A type that the node does not have is named."""
    container = shell(f"ls /none/d; echo listed; {WAIT}", {"name": "d", "mountPath": "/none/d"})
    async with machine.node():
        manifest = pod_manifest(container=container, volumes=[{"name": "d", **source}])
        await machine.client.create_manifest(manifest)
        if problem:
            assert await machine.events("FailedMount") == [f'volume "d": {problem}']
        else:
            assert await machine.log() == "listed\n"


async def test_a_token_of_the_account_is_a_file(machine, pod_manifest):
    """The API server knows by it which account the container belongs to."""
    source = {"serviceAccountToken": {"path": "token", "audience": "vault"}}
    volume = {"name": "t", "projected": {"sources": [source]}}
    container = shell(f"cat /none/t/token; echo; {WAIT}", {"name": "t", "mountPath": "/none/t"})
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(container=container, volumes=[volume]))
        token = (await machine.log()).strip()
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": ["vault"]},
        }
        answer = await machine.client.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        status = msgspec.json.decode(answer.body)["status"]
        assert status["user"]["username"] == "system:serviceaccount:default:default"


async def test_a_volume_without_its_account_waits(machine, pod_manifest):
    """Its Pod says so."""
    source = {"serviceAccountToken": {"path": "token"}}
    volume = {"name": "t", "projected": {"sources": [source]}}
    container = shell(WAIT, {"name": "t", "mountPath": "/none/t"})
    async with machine.node():
        manifest = pod_manifest(container=container, volumes=[volume])
        manifest["spec"]["serviceAccountName"] = "absent"
        await machine.client.create_manifest(manifest)
        [message] = await machine.events("FailedMount")
        assert message.startswith('volume "t": no token for ServiceAccount "absent"')


async def logged(machine, text: str) -> None:
    """Wait until a line of the log begins with a text."""
    async with asyncio.timeout(60):
        while not any(line.startswith(text) for line in (await machine.log()).splitlines()):
            await asyncio.sleep(0.03)


def waiting(pod: api.Pod) -> api.ContainerStateWaiting:
    """Why the container waits; empty if it does not."""
    [state] = [each.state.waiting for each in pod.status.container_statuses] or [None]
    return state or api.ContainerStateWaiting()
