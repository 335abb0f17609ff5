"""Environments from ConfigMaps and Secrets, with a real server and real processes."""

import json

PRINT = "import json, os, time; print(json.dumps(dict(os.environ)), flush=True); time.sleep(60)"


def settings(**data: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": data,
    }


async def test_a_container_waits_for_its_objects(machine, pod_manifest):
    """Without its objects a container waits, and says for which; it starts when they exist, for the first
    time."""
    ref = {"secretKeyRef": {"name": "creds", "key": "token"}}
    container = {
        "envFrom": [{"prefix": "CFG_", "configMapRef": {"name": "settings"}}],
        "env": [{"name": "TOKEN", "valueFrom": ref}],
    }
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(script=PRINT, container=container))
        await machine.until(lambda pods: 'ConfigMap "settings" not found' in waiting(pods[0]))
        await machine.client.create_manifest(settings(mode="fast"))
        await machine.until(lambda pods: 'Secret "creds" not found' in waiting(pods[0]))
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds", "namespace": "default"}}
        await machine.client.create_manifest(secret | {"stringData": {"other": "x"}})
        await machine.until(lambda pods: "key 'token' not found in Secret" in waiting(pods[0]))
        await machine.client.apply_manifest(secret | {"stringData": {"token": "t-1"}}, force=True)
        [pod] = await machine.until_ready()
        assert pod.status.container_statuses[0].restart_count == 0
        variables = json.loads(await machine.log())
        assert (variables["CFG_mode"], variables["TOKEN"]) == ("fast", "t-1")


async def test_names_that_are_none_are_reported(machine, pod_manifest):
    """Keys of envFrom that no variable can be named are left out, with an event."""
    container = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    async with machine.node():
        await machine.client.create_manifest(settings(**{"good": "1", "1bad": "2"}))
        await machine.client.create_manifest(pod_manifest(script=PRINT, container=container))
        [message] = await machine.events("InvalidEnvironmentVariableNames")
        assert "[1bad]" in message
        assert 'ConfigMap "settings"' in message
        await machine.until_ready()
        variables = json.loads(await machine.log())
        assert variables["good"] == "1"
        assert "1bad" not in variables


def waiting(pod) -> str:
    states = [each.state.waiting for each in pod.status.container_statuses]
    return (
        states[0].message if states and states[0] and states[0].reason == "CreateContainerConfigError" else ""
    )
