"""What a node does with Pods that were there before it."""

import asyncio
import os
import socket

import pytest

from headgate import api, cluster, node
from headgate.node import addresses
from headgate.node.registration import node_name

READY = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 10}


async def test_pods_go_on_after_a_restart(machine, pod_manifest):
    """The objects stay when a node stops; the next start runs them again: same address, one restart more."""
    async with machine.node(node_name="here"):
        await machine.client.create_manifest(pod_manifest(container={"readinessProbe": READY}))
        [before] = await machine.until_ready()
    [stopped] = await machine.pods()
    assert not stopped.ready
    assert stopped.status.container_statuses[0].state.waiting.reason == "NodeShutdown"
    with pytest.raises(ProcessLookupError):
        os.kill(int(before.status.container_statuses[0].container_id.removeprefix("process://")), 0)
    async with machine.node() as ready:
        assert ready.name == "here"
        [after] = await machine.until_ready()
    assert after.status.pod_ip == before.status.pod_ip
    assert after.status.container_statuses[0].restart_count == 1
    assert after.metadata.uid == before.metadata.uid


async def test_readiness_that_others_wrote_is_corrected(machine, pod_manifest):
    """A cluster marks the Pods of a silent node as not ready, and leaves it to the node to take that back."""
    async with machine.node():
        await machine.client.create_manifest(pod_manifest(container={"readinessProbe": READY}))
        await machine.until_ready()
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        patched = await machine.client.patch_status(api.Pod, "one", "default", unready)
        assert not patched.ready
        await machine.until_ready()


async def test_a_second_node_of_the_same_name_is_refused(machine, tmp_path):
    """Both would run every Pod. A node that has stopped may be replaced from anywhere."""
    elsewhere = node.NodeConfig(tmp_path / "elsewhere", machine.kubeconfig, node_name="here")
    async with machine.node(node_name="here"):
        with pytest.raises(cluster.ConfigurationError, match="another node named here sent a heartbeat"):
            await node.run_node(elsewhere)
        [known] = await machine.client.list(api.Node)
        assert known.metadata.annotations["headgate.dev/node-instance"]
    started = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        stop = asyncio.Event()
        tasks.create_task(node.run_node(elsewhere, stop=stop, on_ready=lambda _: started.set()))
        await started.wait()
        stop.set()


async def test_a_pod_deleted_meanwhile_goes(machine, pod_manifest):
    """A Pod that was deleted while no node ran has nothing to end: it goes when the node comes back."""
    async with machine.node(node_name="here"):
        await machine.client.create_manifest(pod_manifest())
        await machine.until_ready()
    await machine.client.delete(api.Pod, "one", "default")
    async with machine.node():
        await machine.until(lambda pods: not pods)


async def test_pods_of_another_node_are_left_alone(machine, pod_manifest):
    """A Pod that is bound to another node is neither run nor rewritten."""
    await machine.client.create_manifest(pod_manifest("far", nodeName="elsewhere"))
    async with machine.node(node_name="here"):
        await machine.client.create_manifest(pod_manifest("near"))
        pods = await machine.until(lambda pods: any(pod.ready for pod in pods))
    assert [pod.metadata.name for pod in pods if pod.ready] == ["near"]
    assert (await machine.pod("far")).status.pod_ip == ""


async def test_the_node_object_says_whether_it_is_well(machine):
    """The Node is Ready while it runs, tells where its logs are, and says so when it stops."""
    async with machine.node(node_name="here") as ready:
        known = await machine.client.get(api.Node, "here")
        assert known.metadata.annotations["headgate.dev/log-endpoint"] == ready.log_url
        assert [(each.type, each.status) for each in known.status.conditions] == [("Ready", "True")]
    known = await machine.client.get(api.Node, "here")
    assert [(each.type, each.status) for each in known.status.conditions] == [("Ready", "False")]


async def test_a_state_directory_has_one_node(machine, pod_manifest):
    """A second node on the same directory is refused, because each would end the other's processes."""
    async with machine.node():
        with pytest.raises(node.StateInUseError, match="used by another node"):
            await node.run_node(node.NodeConfig(machine.state, machine.kubeconfig))
        await machine.client.create_manifest(pod_manifest())
        await machine.until_ready()


async def test_without_a_loopback_range_pods_have_ports(machine, pod_manifest, monkeypatch):
    """Where there is one loopback address, each Pod has a port of its own, annotated and in POD_PORT."""
    monkeypatch.setattr(addresses, "is_local", lambda: False)
    script = """
import os, socket, time
server = socket.create_server((os.environ["POD_IP"], int(os.environ["POD_PORT"])))
time.sleep(60)
"""
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    async with machine.node() as ready:
        assert ready.shares_address
        for name in ("one", "two"):
            await machine.client.create_manifest(
                pod_manifest(name, script=script, container={"readinessProbe": probe})
            )
        pods = await machine.until_ready(2)
        assert {pod.status.pod_ip for pod in pods} == {"127.0.0.1"}
        assert len({pod.metadata.annotations["headgate.dev/port"] for pod in pods}) == 2


async def test_a_node_that_waits_for_its_api_server_can_be_stopped(machine, monkeypatch):
    """The signal is heard before the first list is answered, too."""

    async def unanswered(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster.Informer, "run", unanswered)
    stop = asyncio.Event()
    config = node.NodeConfig(machine.state, machine.kubeconfig)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(node.run_node(config, stop=stop))
        while not await machine.client.list(api.Node):
            await asyncio.sleep(0.01)
        stop.set()


@pytest.mark.parametrize(
    ("host", "name"), [("My_Laptop.local", "my-laptop.local"), ("-x-", "x"), ("\u00fc", "localhost")]
)
def test_a_node_is_called_like_its_host_as_far_as_it_may_be(tmp_path, monkeypatch, host, name):
    """A host name that no object may have does not keep the node from starting."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert node_name(node.NodeConfig(tmp_path)) == name


async def test_an_api_server_that_refuses_is_named(machine, tmp_path):
    """A node that can't register ends with the server's answer, not with a traceback of groups."""
    text = machine.kubeconfig.read_text()
    token = next(line.split()[-1] for line in text.splitlines() if "token:" in line)
    wrong = tmp_path / "wrong"
    wrong.write_text(text.replace(token, "nobody"))
    with pytest.raises(cluster.ApiError) as refused:
        await node.run_node(node.NodeConfig(machine.state, wrong))
    assert refused.value.status_code == 401
