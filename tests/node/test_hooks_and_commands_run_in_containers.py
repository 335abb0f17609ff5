"""Sidecars, hooks, probes by command and deadlines, with a real server and real processes."""

import asyncio

from headgate import api

WAIT = "sleep 1000"
DIRECTORY = [{"name": "d", "mountPath": "/none/d"}]
VOLUMES = [{"name": "d", "emptyDir": {}}]


def shell(script: str, name: str = "main", **fields) -> dict:
    return {"name": name, "command": ["sh", "-c", script], "volumeMounts": DIRECTORY, **fields}


def conditions(pod: api.Pod) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in pod.status.conditions}


async def test_a_job_with_a_sidecar_completes(machine, pod_manifest):
    """The sidecar starts first, by its probe; it ends when the main container has, and the Pod succeeded."""
    ready = {"exec": {"command": ["test", "-e", "/none/d/up"]}, "periodSeconds": 1}
    trap = "trap 'echo bye; exit 0' TERM; sleep 0.5; touch /none/d/up; while :; do sleep 0.1; done"
    sidecar = shell(trap, "proxy", restartPolicy="Always", startupProbe=ready)
    check = shell("ls /none/d; touch /none/d/checked", "check")
    async with machine.node(node_name="here"):
        manifest = pod_manifest(
            container=shell("ls /none/d"),
            volumes=VOLUMES,
            initContainers=[sidecar, check],
            restartPolicy="Never",
            terminationGracePeriodSeconds=20,
        )
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until(lambda pods: pods[0].status.phase in ("Succeeded", "Failed"))
        assert pod.status.phase == "Succeeded"
        assert await machine.log(container="check") == "up\n"
        assert await machine.log() == "checked\nup\n"
        assert (await machine.log(container="proxy")).endswith("bye\n")
        assert conditions(pod)["Initialized"] == ("True", "PodCompleted")
        assert conditions(pod)["Ready"] == ("False", "PodCompleted")
        status = (await machine.client.get_manifest(api.Pod.resource, "one", "default"))["status"]
        first, second = status["initContainerStatuses"]
        assert first["state"]["terminated"]["exitCode"] == 0
        assert (second["name"], second["ready"], second["restartCount"]) == ("check", True, 0)


async def test_hooks_run_in_the_container(machine, pod_manifest, tmp_path):
    """postStart before the Pod is ready, preStop before SIGTERM, both with its files and variables."""
    hook = {"exec": {"command": ["sh", "-c", "sleep 0.3; echo $GREETING > /none/d/started"]}}
    stop = {"exec": {"command": ["sh", "-c", "echo stopping > /none/d/stop; sleep 0.3"]}}
    script = "trap 'mv /none/d/stop /none/d/stopped; exit 0' TERM; while :; do sleep 0.1; done"
    container = shell(script, lifecycle={"postStart": hook, "preStop": stop})
    container["env"] = [{"name": "GREETING", "value": "hello"}]
    async with machine.node():
        volume = {"name": "d", "hostPath": {"path": str(tmp_path)}}
        manifest = pod_manifest(container=container, volumes=[volume], terminationGracePeriodSeconds=30)
        manifest["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["true"]}}
        await machine.client.create_manifest(manifest)
        await machine.until_ready()
        assert (tmp_path / "started").read_text() == "hello\n"
        await machine.client.delete(api.Pod, "one", "default")
        await machine.until(lambda pods: not pods)
        assert (tmp_path / "stopped").read_text() == "stopping\n"


async def test_a_failed_hook_restarts_the_container(machine, pod_manifest):
    """With an event that has the output of the command, and the reason in the status."""
    hook = {"exec": {"command": ["sh", "-c", "echo no such model; exit 3"]}}
    async with machine.node():
        container = shell(WAIT, lifecycle={"postStart": hook})
        await machine.client.create_manifest(pod_manifest(container=container, volumes=VOLUMES))
        [message, *_] = await machine.events("FailedPostStartHook")
        assert message == "container main: the command exited with 3: no such model"
        [pod] = await machine.until(lambda pods: pods[0].status.container_statuses[0].restart_count > 0)
        ended = pod.status.container_statuses[0].last_state.terminated
        assert "postStart hook failed" in ended.message


async def test_a_command_decides_about_liveness(machine, pod_manifest):
    """A command that takes too long, or fails, restarts the container."""
    live = {
        "exec": {"command": ["sh", "-c", "test ! -e /none/d/broken || sleep 30"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
        "timeoutSeconds": 2,
    }
    async with machine.node():
        script = f"rm /none/d/broken && echo again; echo up; {WAIT}"
        container = shell(script, livenessProbe=live)
        await machine.client.create_manifest(pod_manifest(container=container, volumes=VOLUMES))
        [pod] = await machine.until_ready()
        while "up\n" not in await machine.log():  # before, rm says that there is no such file
            await asyncio.sleep(0.03)
        (machine.state / "pods" / pod.metadata.uid / "d" / "broken").touch()
        [pod] = await machine.until(lambda pods: pods[0].status.container_statuses[0].restart_count == 1)
        ended = pod.status.container_statuses[0].last_state.terminated
        assert "liveness probe failed: the command did not end within 2 s" in ended.message


async def test_a_pod_has_a_deadline(machine, pod_manifest):
    """When it is over, the Pod fails with the reason that Kubernetes gives."""
    async with machine.node():
        manifest = pod_manifest(container=shell(WAIT), volumes=VOLUMES, activeDeadlineSeconds=1)
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until(lambda pods: pods[0].status.phase == "Failed")
        assert pod.status.reason == "DeadlineExceeded"
        assert "activeDeadlineSeconds" in pod.status.message


async def test_conditions_of_others_stay_and_gate_readiness(machine, pod_manifest):
    """A Pod with a readiness gate is ready when somebody else says so, and the node keeps what they said."""
    async with machine.node():
        manifest = pod_manifest(readinessGates=[{"conditionType": "example.com/balanced"}])
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until(
            lambda pods: conditions(pods[0]).get("Ready") == ("False", "ReadinessGatesNotReady")
        )
        assert conditions(pod)["ContainersReady"][0] == "True"
        gate = {"type": "example.com/balanced", "status": "True"}
        mine = [{"type": each.type, "status": each.status} for each in pod.status.conditions]
        await machine.client.patch_status(api.Pod, "one", "default", {"conditions": [*mine, gate]})
        [pod] = await machine.until_ready()
        assert conditions(pod)["example.com/balanced"][0] == "True"


async def test_a_hook_ends_with_its_container(machine, pod_manifest):
    """A Pod whose process has ended is not kept by its preStop hook."""
    stop = {"exec": {"command": ["sh", "-c", "kill -9 $(cat /none/d/pid); sleep 1000"]}}
    container = shell(f"echo $$$$ > /none/d/pid; {WAIT}", lifecycle={"preStop": stop})
    async with machine.node():
        manifest = pod_manifest(container=container, volumes=VOLUMES, terminationGracePeriodSeconds=500)
        await machine.client.create_manifest(manifest)
        [pod] = await machine.until_ready()
        pid = machine.state / "pods" / pod.metadata.uid / "d" / "pid"
        while not pid.exists() or not pid.read_text():
            await asyncio.sleep(0.03)
        await machine.client.delete(api.Pod, "one", "default")
        await machine.until(lambda pods: not pods)
