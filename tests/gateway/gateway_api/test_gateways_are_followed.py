"""A gateway follows the objects of the Gateway API, and opens the ports that their listeners name."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate import api, apiserver, cluster
from headgate.gateway import GatewaySettings
from headgate.gateway.service import Service

CLASS = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "GatewayClass",
    "metadata": {"name": "headgate"},
    "spec": {"controllerName": "headgate.dev/gateway-controller"},
}


def gateway(*listeners: dict[str, Any], name: str = "front", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    whole = {"gatewayClassName": "headgate", "listeners": list(listeners), **spec}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": metadata,
        "spec": whole,
    }


def route(backend: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"parentRefs": [{"name": "front"}], "rules": [{"backendRefs": [backend]}], **spec},
    }


def http(port: int, **listener: Any) -> dict[str, Any]:
    return {"name": f"http-{port}", "port": port, "protocol": "HTTP", **listener}


def service(port: int) -> list[dict[str, Any]]:
    """A Service with an EndpointSlice of one address."""
    metadata = {"name": "web", "namespace": "default"}
    labels = {"kubernetes.io/service-name": "web"}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "namespace": "default", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"]}],
            "ports": [{"name": "", "port": port}],
        },
    ]


class World:
    def __init__(self, client: cluster.Client, service: Service) -> None:
        self.client, self.service = client, service

    async def apply(self, *manifests: dict[str, Any]) -> None:
        for manifest in manifests:
            await self.client.apply_manifest(manifest)

    async def curl(self, *arguments: str) -> str:
        """What the real curl prints: the body, and the status on a line of its own."""
        curl = shutil.which("curl")
        assert curl is not None
        command = [curl, "--silent", "--max-time", "20", "--write-out", "\n%{http_code}", *arguments]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        return out.decode()

    async def until(self, wanted: str, *arguments: str) -> None:
        """Asks until this is printed."""
        async with asyncio.timeout(30):
            while (told := await self.curl(*arguments)) != wanted:
                await asyncio.sleep(0.02)
                self.last = told


@pytest.fixture
async def world(tmp_path):
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        asyncio.TaskGroup() as tasks,
    ):
        ready = asyncio.Event()
        settings = {"kubernetes_kubeconfig": str(server.kubeconfig), "logging_access_log": "off"}
        made = Service(GatewaySettings().replace(**settings))
        following = tasks.create_task(made.run(ready.set))
        await ready.wait()
        yield World(client, made)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await made.close()


async def test_a_route_serves_and_ends_with_its_objects(world, start_endpoint, held_port):
    endpoint, port, other = await start_endpoint(b"hello"), held_port(), held_port()
    url = f"http://127.0.0.1:{port}/x"
    await world.apply(CLASS, gateway(http(port)), *service(endpoint.port))
    await world.apply(route({"name": "web", "port": 80}))
    await world.until("hello\n200", url)
    # Another port.
    await world.apply(gateway(http(other)))
    await world.until("hello\n200", f"http://127.0.0.1:{other}/")
    await world.until("\n000", url)
    # Other endpoints.
    second = await start_endpoint(b"second")
    await world.apply(*service(second.port)[1:])
    await world.until("second\n200", f"http://127.0.0.1:{other}/")
    # No class.
    await world.client.delete(api.GatewayClass, "headgate")
    await world.until("\n000", f"http://127.0.0.1:{other}/")


async def test_without_endpoint_slices_a_service_leads_to_pods(world, start_endpoint, held_port):
    endpoint, port = await start_endpoint(b"pod"), held_port()
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": endpoint.port}]}
    web = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}}
    await world.apply(CLASS, gateway(http(port)), {**web, "spec": spec}, route({"name": "web", "port": 80}))
    metadata = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await world.client.create(msgspec.convert(pod, api.Pod))
    status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    await world.client.patch_status(api.Pod, "p", "default", status)
    await world.until("pod\n200", f"http://127.0.0.1:{port}/")


def certificate(tmp_path: Path, name: str) -> dict[str, str]:
    """A self-signed certificate, as the data of a Secret."""
    key, crt = tmp_path / f"{name}.key", tmp_path / f"{name}.crt"
    openssl = shutil.which("openssl")
    assert openssl is not None
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}")
    named = ("-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(crt))
    subprocess.run([openssl, *request, *named], check=True, capture_output=True)
    files = {"tls.crt": crt, "tls.key": key}
    return {entry: base64.b64encode(path.read_bytes()).decode() for entry, path in files.items()}


def secret(name: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": metadata,
        "data": data,
    }


def https(name: str, port: int) -> dict[str, Any]:
    tls = {"certificateRefs": [{"name": name}]}
    return {"name": name, "port": port, "protocol": "HTTPS", "hostname": f"{name}.example", "tls": tls}


async def test_https_serves_the_certificate_of_the_host(world, start_endpoint, held_port, tmp_path):
    """By SNI, and renewed without a break."""
    endpoint, port = await start_endpoint(b"hello"), held_port()
    for name in ("one", "two"):
        await world.apply(secret(name, certificate(tmp_path, f"{name}.example")))
    await world.apply(CLASS, gateway(https("one", port), https("two", port)), *service(endpoint.port))
    await world.apply(route({"name": "web", "port": 80}))
    for name in ("one", "two"):
        host = f"{name}.example"
        trusted = ("--cacert", str(tmp_path / f"{host}.crt"), "--resolve", f"{host}:{port}:127.0.0.1")
        await world.until("hello\n200", *trusted, f"https://{host}:{port}/")
    assert endpoint.calls[-1].header("x-forwarded-proto") == "https"
    assert (
        await world.curl(
            "--insecure", "--resolve", f"a.example:{port}:127.0.0.1", f"https://a.example:{port}/"
        )
    ) == "\n000"
    await world.apply(secret("one", certificate(tmp_path, "one.example")))
    host = ("--cacert", str(tmp_path / "one.example.crt"), "--resolve", f"one.example:{port}:127.0.0.1")
    await world.until("hello\n200", *host, f"https://one.example:{port}/")


async def test_a_port_that_is_taken_is_reported_and_opened_later(
    world, start_endpoint, held_port, eventually
):
    port = held_port()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", port, reuse_address=True)
    await world.apply(CLASS, gateway(http(port)))
    shared = world.service.shell.gateways
    await eventually(lambda: any(shared.ports.values()))
    [(place, why)] = shared.ports_shown().items()
    assert place == f"*:{port}"
    assert "Address already in use" in why
    server.close()
    await world.until(
        "404", "--output", "/dev/null", "--write-out", "%{http_code}", f"http://127.0.0.1:{port}/"
    )
    assert shared.ports_shown() == {f"*:{port}": "open"}


async def test_a_gateway_is_served_at_its_own_address(world, start_endpoint, held_port):
    endpoint, port = await start_endpoint(b"hello"), held_port()
    await world.apply(
        CLASS,
        gateway(http(port), addresses=[{"value": "127.0.0.77"}]),
        *service(endpoint.port),
        route({"name": "web", "port": 80}),
    )
    await world.until("hello\n200", f"http://127.0.0.77:{port}/")
    await world.until("\n000", f"http://127.0.0.1:{port}/")


def test_a_key_of_another_certificate_is_not_served(tmp_path):
    """The others at the port are."""
    from headgate.gateway.gateway_api.tls import ListenerNames
    from headgate.gateway.tls import Policy
    from headgate.routing import gateway_api as rules

    good, other = (certificate(tmp_path, f"{name}.example") for name in ("good", "other"))

    def made(name: str, chain: dict[str, str], key: dict[str, str]) -> rules.Certificate:
        pem = base64.b64decode(chain["tls.crt"]), base64.b64decode(key["tls.key"])
        return rules.Certificate(api.ObjectKey("default", name), *pem)

    hosts = (
        rules.VirtualHost("good.example", rules.HostTable({}), (made("good", good, good),)),
        rules.VirtualHost("bad.example", rules.HostTable({}), (made("bad", good, other),)),
    )
    table = rules.HostTable({host.hostname: host for host in hosts})
    context = ListenerNames(rules.Port(True, table, hosts), Policy()).names.context
    assert _handshakes(context, "good.example")
    assert not _handshakes(context, "bad.example")


def _handshakes(server: ssl.SSLContext, name: str) -> bool:
    """Whether a client gets a certificate for this name."""
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(*pipes, server_hostname=name)
    serving = server.wrap_bio(*reversed(pipes), server_side=True)
    try:
        for _ in range(4):
            for side in (asking, serving):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLError:
        return False
    return True


async def test_https_listeners_serve_http2(world, start_endpoint, held_port, tmp_path):
    """By ALPN; without TLS, to clients that know of it. Requests and responses stream as with HTTP/1.1."""
    endpoint, secure, plain = await start_endpoint(b"hello"), held_port(), held_port()
    await world.apply(secret("one", certificate(tmp_path, "one.example")))
    await world.apply(CLASS, gateway(https("one", secure), http(plain)), *service(endpoint.port))
    await world.apply(route({"name": "web", "port": 80}))
    shown = ("--write-out", " %{http_version} %{http_code}")
    trusted = (
        *("--cacert", str(tmp_path / "one.example.crt"), "--resolve", f"one.example:{secure}:127.0.0.1"),
        f"https://one.example:{secure}/",
    )
    await world.until("hello 2 200", "--http2", *shown, *trusted)
    await world.until("hello 1.1 200", "--http1.1", *shown, *trusted)
    await world.until("hello 2 200", "--http2-prior-knowledge", *shown, f"http://127.0.0.1:{plain}/")
    body = tmp_path / "body"
    body.write_bytes(b"x" * 300_000)
    sent = ("--data-binary", f"@{body}", "-H", "content-type: text/plain")
    await world.until("hello 2 200", "--http2", *sent, *shown, *trusted)
    assert endpoint.calls[-1].body == body.read_bytes()
    assert endpoint.calls[-1].header("x-forwarded-proto") == "https"


async def test_a_listener_serves_all_its_certificates(world, start_endpoint, held_port, tmp_path):
    """The one that is for the name which the client asks for."""
    endpoint, port = await start_endpoint(b"hello"), held_port()
    for name in ("one", "two"):
        await world.apply(secret(name, certificate(tmp_path, f"{name}.example")))
    listener = https("any", port) | {"tls": {"certificateRefs": [{"name": "one"}, {"name": "two"}]}}
    del listener["hostname"]
    await world.apply(CLASS, gateway(listener), *service(endpoint.port))
    await world.apply(route({"name": "web", "port": 80}))
    for name in ("one", "two"):
        host = f"{name}.example"
        trusted = ("--cacert", str(tmp_path / f"{host}.crt"), "--resolve", f"{host}:{port}:127.0.0.1")
        await world.until("hello\n200", *trusted, f"https://{host}:{port}/")
