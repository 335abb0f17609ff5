"""Where clients need credentials, no path of any port serves anything but health without them.

The paths are those that the code registers, so that a new one is tried without an edit here.
An application that is new, or a path that is open, fails a test of its own.
"""

import asyncio
import base64
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import httpx2
import pytest
import yaml

import headgate
from headgate import dashboard
from headgate.auth import keys
from headgate.gateway import authenticating
from headgate.gateway import pages as pages_of_workers
from headgate.gateway.websocket import opening
from headgate.picker import pages as pages_of_pickers
from headgate.requests import paths as inference_paths
from headgate.serving import guard
from headgate.workers import pages

HEALTH = {"/healthz", "/readyz", "/health"}
"""All that is open, for GET and HEAD. `/health` is a path of the inference API only."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
INFERENCE = sorted(
    {
        *inference_paths.DEFAULT,
        *inference_paths.SESSIONS,
        *(inference_paths.OWN - HEALTH),
        *(f"{below}m" for below in inference_paths.OWN_BELOW),
    }
)
APPLICATIONS = {
    "workers/pages.py": "the metrics and admin ports of gateways: here",
    "gateway/pages.py": "behind the admin port: here",
    "dashboard/app.py": "behind the admin port: here",
    "apiserver/app.py": "the API server: here",
    "picker/pages.py": "the metrics port of pickers: here, and in serving/test_pages_need_their_token.py",
    "picker/router_service.py": "that of body routers: in serving/test_pages_need_their_token.py",
    "controllers/pages.py": "that of controllers: in serving/test_pages_need_their_token.py",
    "node/logs.py": "the kubelet of nodes, for its API server only: in node/",
}
"""Modules that register paths, and where they are tried."""
ODD = (
    "/",
    "//",
    "/x",
    "/healthz/",
    "/healthz/..",
    "/HEALTHZ",
    "/readyz?x=1",
    "/v1/../healthz",
    "/%68ealthz",
    "*",
)


def pages_paths():
    """All routes of the metrics and admin pages, of the supervisor and of workers."""
    nobody = types.SimpleNamespace()
    apps = [pages.metrics_page(nobody), pages.admin_page(nobody)]
    found = [route.path for app in apps for route in app.app.app.routes]
    found += [route.path for route in pages_of_workers.admin_page(nobody).routes]
    found += [
        dashboard.SIGN_IN,
        dashboard.SIGN_OUT,
        "/dashboard/static/dashboard.css",
        "/dashboard/",
        "/dashboardx",
    ]
    return sorted({re.sub(r"{.*}", "x", path) for path in found})


class Keys:
    def __init__(self, path):
        self.path = path
        made = {name: keys.create(name, "", admin=name == "admin") for name in ("user", "admin", "gone")}
        self.shown = {name: shown for name, (shown, _) in made.items()}
        stored = [key for name, (_, key) in made.items() if name != "gone"]
        fields = ("id", "tenant", "sha256", "admin")
        path.write_text(json.dumps([{name: getattr(key, name) for name in fields} for key in stored]))
        path.chmod(0o600)


@pytest.fixture
def made(tmp_path):
    return Keys(tmp_path / "keys.json")


def credentials(*shown):
    """What a client may send, and that does not open: nothing, nonsense, and keys that are not for this."""
    yield {}
    for text in ("wrong", "hg_aaaaaaaa_" + "a" * 32, *shown):
        yield {"authorization": f"Bearer {text}"}
        yield {"x-api-key": text}
    yield {"authorization": "Basic " + base64.b64encode(b"a:b").decode()}
    yield {
        "cookie": "headgate_dashboard_8081=gAAAAA; session=1",
        "x-headgate-tenant": "admin",
        "x-forwarded-for": "127.0.0.1",
    }


async def statuses(url, paths, given, methods=METHODS, host="127.0.0.1", *, opens=False):
    """Each request on a connection of its own, with the bytes that it has here: by method and path. With
    `opens`, it may open something else than HTTP."""
    port = httpx2.URL(url).port
    found = {}
    for method in methods:
        for path in paths:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
            framing = "" if opens else "content-length: 0\r\nconnection: close\r\n"
            head = f"{method} {path} HTTP/1.1\r\nhost: {host}\r\n{framing}"
            writer.write(f"{head}{lines}\r\n".encode())
            answer = await asyncio.wait_for(reader.read(65536), 20)
            writer.close()
            found[method, path] = int(answer.split(b" ", 2)[1]) if answer else 0
    return found


def served(found):
    return {
        (method, path): status
        for (method, path), status in found.items()
        if status not in (400, 401, 403, 404, 405, 501) and not (path in HEALTH and method in ("GET", "HEAD"))
    }


async def test_of_a_gateway(start_gateway, made):
    """The inference API, the metrics page and the admin page."""
    gateway = await start_gateway("--auth-keys-file", str(made.path))
    of_pages = pages_paths()
    assert {"/metrics", "/signals", "/debug/config", "/debug/explain", "/dashboard", "/x"} <= set(of_pages)
    for given in credentials(made.shown["gone"], made.shown["admin"]):
        found = await statuses(gateway.url, (*INFERENCE, *of_pages, *ODD), given, ("GET", "POST", "OPTIONS"))
        assert not served(found), given
        assert {found["POST", path] for path in INFERENCE} <= {401, 403}, given
        assert found["GET", "/v1/models"] in (401, 403)
    for given in credentials(made.shown["gone"], made.shown["user"]):
        for url in (gateway.metrics_url, gateway.admin_url):
            found = await statuses(url, (*of_pages, *ODD[:5]), given, ("GET", "POST"))
            assert not served(found), (url, given)
            assert all(status in (401, 403) for (_, path), status in found.items() if path not in HEALTH), (
                url,
                given,
            )
    await opens(gateway, made)


def test_every_application_is_tried():
    """Whoever adds one has to say where."""
    source = Path(headgate.__file__).parent
    found = {
        str(file.relative_to(source)) for file in source.rglob("*.py") if "Starlette(" in file.read_text()
    }
    assert found == APPLICATIONS.keys()


def test_nothing_but_health_is_open():
    """On the port of clients, and on those of pages."""
    assert {path.decode() for path in authenticating.PROBES} == HEALTH
    assert guard.OPEN < HEALTH


async def test_over_http2(start_gateway, made):
    """As over HTTP/1.1, with many requests of a connection, of which one may have had credentials."""
    gateway = await start_gateway("--auth-keys-file", str(made.path))
    user = {"x-api-key": made.shown["user"]}
    async with httpx2.AsyncClient(http1=False, http2=True, trust_env=False) as client:
        opened = await client.get(f"{gateway.url}/v1/models", headers=user)
        assert (opened.status_code, opened.http_version) == (200, "HTTP/2")
        for given in credentials(made.shown["gone"], made.shown["admin"]):
            for path in (*INFERENCE, *pages_paths(), "/healthz/", "/HEALTHZ", "/readyz?x=1"):
                for method in ("GET", "POST"):
                    answer = await client.request(method, f"{gateway.url}{path}", headers=given)
                    is_health = httpx2.URL(path).path in HEALTH and method == "GET"
                    assert is_health or answer.status_code in (400, 401, 403, 404), (method, path, given)


async def test_websockets(start_gateway, made):
    """At the paths that have them, and all others; the key may be a protocol, as in browsers."""
    gateway = await start_gateway("--auth-keys-file", str(made.path))
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(b"0123456789abcdef").decode(),
    }
    keys_ = made.shown["gone"], made.shown["admin"]
    protocols = [
        {"sec-websocket-protocol": f"realtime, {opening.KEY_PROTOCOL.decode()}{key}"} for key in keys_
    ]
    for given in (*credentials(*keys_), *protocols):
        found = await statuses(gateway.url, INFERENCE, given | upgrade, ["GET"], opens=True)
        assert set(found.values()) <= {401, 403}, given
    for given in (*credentials(keys_[0], made.shown["user"]), *protocols[:1]):
        for url in (gateway.metrics_url, gateway.admin_url):
            found = await statuses(url, pages_paths(), given | upgrade, ["GET"], opens=True)
            assert all(status in (400, 401, 403) for (_, path), status in found.items() if path not in HEALTH)


@pytest.fixture
def picker(kubeconfig, tmp_path, unused_tcp_port_factory):
    """The port of a picker's pages, and its token."""
    (tmp_path / "token").write_text("the-token-of-prometheus\n")
    ports = {name: unused_tcp_port_factory() for name in ("grpc-port", "grpc-health-port", "metrics-port")}
    flags = [word for name, port in ports.items() for word in (f"--{name}", str(port))]
    command = [sys.executable, "-m", "headgate", "picker", "--pool-name", "m", "--host", "127.0.0.1", *flags]
    command += ["--kubeconfig", str(kubeconfig), "--page-token-file", str(tmp_path / "token")]
    with subprocess.Popen(command) as process:
        yield ports["metrics-port"]
        process.terminate()


async def test_of_a_picker(picker, made, eventually):
    """Its pages; only its proxy calls its other ports."""
    url = f"http://127.0.0.1:{picker}"

    def is_up():
        try:
            return httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200
        except httpx2.HTTPError:
            return False

    await eventually(is_up)
    of_pages = sorted({*pages_paths(), *(route.path for route in pages_of_pickers.pages(None, None).routes)})
    for given in credentials(made.shown["admin"], "the-token-of-prometheu"):
        found = await statuses(url, of_pages, given, ("GET", "POST"))
        assert not served(found), given
    token = {"authorization": "Bearer the-token-of-prometheus"}
    assert (await statuses(url, ["/metrics"], token, ["GET"]))["GET", "/metrics"] == 200


async def opens(gateway, made):
    """To those that may, and with all methods for a stranger."""
    admin = {"authorization": f"Bearer {made.shown['admin']}"}
    for url, path in ((gateway.metrics_url, "/metrics"), (gateway.admin_url, "/debug/config")):
        assert (await statuses(url, [path], admin, ["GET"]))["GET", path] == 200
        assert not served(await statuses(url, [path, "/"], {}))
    user = {"x-api-key": made.shown["user"]}
    assert (await statuses(gateway.url, ["/v1/models"], user, ["GET"]))["GET", "/v1/models"] == 200
    assert not served(await statuses(gateway.url, ["/v1/models", "/v1/completions"], {}))
    for url in (gateway.url, gateway.metrics_url, gateway.admin_url):
        if url != gateway.metrics_url:
            assert (await statuses(url, ["/healthz"], {}, ["GET"]))["GET", "/healthz"] == 200


async def test_of_the_api_server(kubeconfig):
    """Its paths are those that it lists, and every kind. On its own machine, its version is no secret."""
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    paths = [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/api/v1/secrets",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
    ]
    paths += ["/apis/headgate.dev/v1alpha1/tenants", "/apis/apps/v1/deployments", "/debug", "/x"]
    async with httpx2.AsyncClient(verify=False, trust_env=False) as client:
        for path in paths:
            for given in credentials():
                answer = await client.get(f"{server}{path}", headers=given)
                assert answer.status_code == 401, (path, given)


async def test_a_token_file_opens_the_pages_too(start_gateway, made, tmp_path):
    """For Prometheus and controllers, which have no key of the file."""
    token = tmp_path / "token"
    token.write_text("a-token-of-operators\n")
    gateway = await start_gateway("--auth-admin-token-file", str(token))
    good, bad = (
        {"authorization": "Bearer a-token-of-operators"},
        {"authorization": "Bearer a-token-of-operator"},
    )
    for given, status in ((good, 200), (bad, 401), ({}, 401)):
        found = await statuses(gateway.metrics_url, ["/metrics"], given, ["GET"])
        assert found["GET", "/metrics"] == status
    assert (await statuses(gateway.url, ["/v1/models"], {}, ["GET"]))["GET", "/v1/models"] == 200


async def test_a_gateway_that_is_open_says_so(start_gateway, made):
    """Loudly in its log, and in a metric; unless it is on loopback, or was told to be open."""
    open_ = await start_gateway("--host", "0.0.0.0")
    async with asyncio.timeout(30):
        while "ANYBODY" not in open_.said():  # once all workers serve
            await asyncio.sleep(0.05)
    assert open_.metric("headgate_gateway_open") == 1
    for flags in (["--auth-mode", "off"], ["--auth-keys-file", str(made.path)]):
        other = await start_gateway("--host", "0.0.0.0", *flags)
        assert "ANYBODY" not in other.said()
    plain = await start_gateway()
    assert "ANYBODY" not in plain.said()
    assert plain.metric("headgate_gateway_open") == 0
