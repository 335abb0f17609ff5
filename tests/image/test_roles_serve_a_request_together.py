"""All roles serve a request in containers of the image: each becomes healthy, and ends with 0."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path

import httpx2
import pytest
import yaml

from headgate import api, cluster

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
NAMESPACE = "headgate-system"
PATIENCE_S = 120.0


def manifests(port: int) -> list[dict]:
    """A model on an engine at this port of 127.0.0.1."""
    dialect, labels = "networking.volcano.sh/v1alpha1", {"app": "m"}
    container = {"name": "engine", "image": "headgate"}
    server = {"workloadSelector": {"matchLabels": labels}, "workloadPort": {"port": port}}
    rule = {"name": "all", "targetModels": [{"modelServerName": "m"}]}

    def of(version: str, kind: str, name: str, spec: dict, **metadata: object) -> dict:
        place = {} if kind == "Namespace" else {"namespace": "default"}
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, **place, **metadata},
            "spec": spec,
        }

    return [
        of("v1", "Namespace", NAMESPACE, {}),
        of("v1", "Pod", "engine", {"containers": [container]}, labels=labels),
        of(dialect, "ModelServer", "m", {"inferenceEngine": "vLLM", **server}),
        of(dialect, "ModelRoute", "m", {"modelName": "m", "rules": [rule]}),
    ]


async def declare(kubeconfig: Path, port: int) -> None:
    async with cluster.Client.from_kubeconfig(kubeconfig) as client:
        for each in manifests(port):
            await client.create_manifest(each)
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
        await client.patch_status(api.Pod, "engine", "default", status)


async def read(kubeconfig: Path) -> tuple[bool, list[str]]:
    """Whether the route has a condition, and the holders of Leases."""
    async with cluster.Client.from_kubeconfig(kubeconfig) as client:
        route = json.loads((await client.ask("GET", f"{ROUTES}/m")).body)
        leases = json.loads((await client.ask("GET", f"{LEASES}/{NAMESPACE}/leases")).body)
    holders = [each["spec"].get("holderIdentity", "") for each in leases["items"]]
    return bool(route.get("status", {}).get("conditions")), holders


ROUTES = "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelroutes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"


@pytest.fixture
def account(tmp_path):
    """Makes the volume of a service account, with a token of the API server in a container."""

    def make(server, kubeconfig: Path, name: str, *options: str) -> str:
        made = server.run("headgate", "apiserver", "token", "create", name, *options)
        assert made.returncode == 0, made.stderr
        volume = tmp_path / f"account-{name}"
        volume.mkdir(mode=0o755)
        [known] = yaml.safe_load(kubeconfig.read_text())["clusters"]
        (volume / "token").write_text(made.stdout.strip())
        (volume / "ca.crt").write_bytes(base64.b64decode(known["cluster"]["certificate-authority-data"]))
        (volume / "namespace").write_text(NAMESPACE)
        return f"{volume}:{ACCOUNT}:ro"

    return make


def until(condition, *containers) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, [each.output() for each in containers]
        time.sleep(0.2)


def test_the_roles_of_the_chart(
    start, machine, gateway, controller, account, unused_tcp_port_factory, tmp_path
):
    """As rendered, with the account of a Pod; and what they need: an API server and an engine."""
    ports = {name: unused_tcp_port_factory() for name in ("listen", "metrics", "admin", "server", "engine")}
    state = machine.volume("state")
    server = start(
        *("apiserver", f"--port={ports['server']}"),
        name="apiserver",
        volumes=[f"{state}:/var/lib/headgate:rw"],
    )
    engine = start("simulate", "engine", "--model=m", f"--port={ports['engine']}", name="engine")
    server.until_healthy("API server ready")
    engine.until_healthy("on http")
    kubeconfig = state / ".headgate" / "kubeconfig"
    asyncio.run(declare(kubeconfig, ports["engine"]))

    settings = yaml.safe_load(gateway.files["gateway.yaml"])
    settings["shutdown"] = {"lameduck_s": 0.5, "drain_s": 5}
    for section in ("listen", "metrics", "admin"):
        settings.setdefault(section, {})["port"] = ports[section]
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "gateway.yaml").write_text(yaml.safe_dump(settings))
    within = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(ports["server"])}
    fields = {"status.podIP": "127.0.0.1", "metadata.name": "controller-0"}
    gate = start(
        *gateway.arguments(fields),
        name="gateway",
        variables={**within, **gateway.variables(fields)},
        volumes=[
            account(server, kubeconfig, "gateway"),
            f"{tmp_path / 'settings'}:/etc/headgate:ro",
        ],
        memory_bytes=gateway.memory_bytes,
    )
    leader = start(
        *controller.arguments(fields),
        name="controller",
        variables={**within, **controller.variables(fields)},
        volumes=[account(server, kubeconfig, "controller", "--admin")],
        memory_bytes=controller.memory_bytes,
    )
    gate.until_healthy("gateway is ready")
    leader.until_healthy("controller is ready")
    base = f"http://127.0.0.1:{ports['listen']}"
    with httpx2.Client(trust_env=False, timeout=30) as http:
        until(lambda: http.get(f"http://127.0.0.1:{ports['admin']}/readyz").status_code == 200, gate)
        body = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
        until(lambda: http.post(f"{base}/v1/chat/completions", json=body).status_code == 200, gate)
    until(lambda: asyncio.run(read(kubeconfig))[0], leader)
    _, [holder] = asyncio.run(read(kubeconfig))
    assert holder.startswith("controller-0_")

    assert gate.memory_bytes() < gateway.memory_bytes
    assert leader.memory_bytes() < controller.memory_bytes
    for container in (gate, leader, engine, server):
        assert container.run("ls", "/dev/shm").stdout == ""
        assert container.stop() == 0, container.output()
        assert "Read-only file system" not in container.output()
        assert "Traceback" not in container.output()
    assert [each.name for each in state.iterdir()] == [".headgate"]


def test_everything_in_one_container(start, machine, unused_tcp_port_factory):
    """`headgate up`, with a node that starts the engines of the quickstart."""
    state, examples = machine.volume("up"), Path(__file__).parents[2] / "examples"
    flags = ("port", "metrics-port", "admin-port", "apiserver-port")
    ports = {name: unused_tcp_port_factory() for name in flags}
    container = start(
        *("up", "/examples/quickstart"),
        *(f"--{name}={port}" for name, port in ports.items()),
        name="up",
        volumes=[f"{state}:/var/lib/headgate:rw", f"{examples}:/examples:ro"],
    )
    container.until_healthy("Ctrl-C stops it")
    body = {"model": "sim-8b", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
    url = f"http://127.0.0.1:{ports['port']}/v1/chat/completions"
    assert httpx2.post(url, json=body, timeout=60, trust_env=False).status_code == 200
    assert container.stop() == 0, container.output()
    assert [each.name for each in state.iterdir()] == [".headgate"]
