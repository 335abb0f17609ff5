"""`headgate node` as a node of a real cluster: the scheduler's Pods run as processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request

SERVER = """
import os, socket
with socket.create_server((os.environ["POD_IP"], 8000)) as server:
    print("serving on", os.environ["POD_IP"], flush=True)
    while True:
        peer, _ = server.accept()
        peer.recv(4096)
        body = os.environ["POD_NAME"].encode()
        peer.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n%b" % (len(body), body))
        peer.close()
"""


def deployment(name, node, replicas):
    container = {
        "name": "engine",
        "image": "none",
        "command": ["python3", "-S", "-c", SERVER],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1},
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
    }
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    wanted = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}


def answers(address):
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}:8000/", timeout=5) as answer:
        return answer.read().decode()
    return None


def test_pods_of_a_deployment_run_and_end(cluster, namespace, process_node, eventually):
    """Addresses, readiness and endpoints as in any cluster; processes end with their Pods."""
    node = process_node("joined", "10.244.64.0/24").name
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    cluster.apply(deployment("web", node, 2), service, namespace=namespace)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    sets = cluster.get("replicasets", "-n", namespace)["items"]
    assert len(sets) == 1, "the cluster's own controllers made it"
    pods = cluster.get("pods", "-n", namespace)["items"]
    addresses = {pod["status"]["podIP"]: pod["metadata"]["name"] for pod in pods}
    assert {address: answers(address) for address in addresses} == addresses
    assert all(address.startswith("10.244.64.") for address in addresses)

    def endpoints():
        slices = cluster.get("endpointslices", "-n", namespace)["items"]
        found = {each["addresses"][0] for one in slices for each in one.get("endpoints") or ()}
        return found == set(addresses)

    eventually(endpoints)
    cluster.kubectl("delete", "deployment", "web", "-n", namespace)
    eventually(lambda: not cluster.get("pods", "-n", namespace)["items"])
    assert [answers(address) for address in addresses] == [None, None]


def test_a_node_has_capacity_and_heartbeats(cluster, process_node, eventually):
    """The control plane keeps it schedulable; a label and a taint are its own."""
    name = process_node(
        "described", "10.244.65.0/28", "--label=gpu=none", "--taint=only=tests:NoSchedule"
    ).name
    node = cluster.get("node", name)
    assert node["metadata"]["labels"]["gpu"] == "none"
    assert {"key": "only", "value": "tests", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["capacity"]["cpu"] == str(os.cpu_count())
    assert node["status"]["allocatable"]["pods"] == "14"
    lease = cluster.get("lease", name, "-n", "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == name
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    renewed = lease["spec"]["renewTime"]
    eventually(lambda: cluster.get("lease", name, "-n", "kube-node-lease")["spec"]["renewTime"] > renewed)


def test_a_node_that_was_silent_is_trusted_again(cluster, namespace, process_node, eventually):
    """Meanwhile the control plane takes it for dead, and its Pods for not ready."""
    silent = process_node("silent", "10.244.67.0/24")
    cluster.apply(deployment("web", silent.name, 1), namespace=namespace)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")

    def is_ready(*words):
        [condition] = [
            each for each in cluster.get(*words)["status"]["conditions"] if each["type"] == "Ready"
        ]
        return condition["status"] == "True"

    [pod] = cluster.get("pods", "-n", namespace)["items"]
    pod = ("pod", pod["metadata"]["name"], "-n", namespace)
    silent.process.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: not is_ready("node", silent.name) and not is_ready(*pod), 120)
    finally:
        silent.process.send_signal(signal.SIGCONT)
    eventually(lambda: is_ready("node", silent.name) and is_ready(*pod))


def test_only_its_own_pods_run(cluster, namespace, process_node, eventually):
    """A Pod that fits nowhere stays unscheduled: the node takes none by itself."""
    name = process_node("modest", "10.244.66.0/24").name
    pod = deployment("x", "elsewhere", 1)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "x"}}
    cluster.apply(pod, namespace=namespace)

    def is_refused():
        found = cluster.get("pod", "x", "-n", namespace)
        return any(each["reason"] == "Unschedulable" for each in found["status"].get("conditions", ()))

    eventually(is_refused)
    assert "nodeName" not in cluster.get("pod", "x", "-n", namespace)["spec"]
    events = cluster.get("events", "-n", namespace, f"--field-selector=source={name}")
    assert not events["items"]


def test_its_own_controllers_are_refused_beside_others(cluster, tmp_path):
    command = [sys.executable, "-m", "headgate", "node", f"--kubeconfig={cluster.kubeconfig}"]
    command += [f"--state={tmp_path}", "--controllers"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "start the node without --controllers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_range_that_is_not_of_this_machine_is_refused(cluster, tmp_path):
    command = [sys.executable, "-m", "headgate", "node", f"--kubeconfig={cluster.kubeconfig}"]
    command += [f"--state={tmp_path}", "--pod-cidr=192.0.2.0/24"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "192.0.2.0/24 are not this machine's" in done.stderr
    assert json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["kind"] == "List"
