"""A gateway without free file descriptors keeps serving its connections, and recovers."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

DESCRIPTORS = 40

GATEWAY = """
import asyncio, functools, resource, sys
import uvloop
from headgate import api, routing
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.dataplane.records.recorder import Recorder
from headgate.telemetry import Registry

async def main(descriptors, endpoint_port):
    loop = asyncio.get_running_loop()
    shell = Shell(GatewaySettings(), Recorder(Registry(), None), loop)
    key = api.ObjectRef("ModelServer", "default", "pool")
    route = routing.Route(key=key, name="default/route", model="m", adapters=(), rules=(
        routing.Rule("rule", None, (routing.Target(key, 1),)),))
    endpoint = routing.Endpoint("default/pod", "127.0.0.1", endpoint_port)
    pool = routing.Pool(key=key, endpoints=(endpoint,))
    shell.use(routing.Snapshot(models={"m": (route,)}, pools={key: pool}))
    server = await loop.create_server(
        functools.partial(ClientConnection, shell.services, shell.clients), "127.0.0.1", 0, backlog=256)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(shell.plane.ledger.loads()[0].failures, flush=True)
    await shell.close()

uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
"""

POST = b'POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 13\r\n\r\n{"model":"m"}'


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def _ask(client: socket.socket, data: bytes) -> tuple[int, bytes]:
    """Status and body; raises OSError if the gateway hangs up instead."""
    client.sendall(data)
    received = b""
    while b"\r\n\r\n" not in received:
        if not (more := client.recv(65536)):
            raise ConnectionResetError
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head[9:12]), body


def _healthy(client: socket.socket) -> bool:
    return _ask(client, b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n")[0] == 200


def test_descriptors_run_out():
    """Clients that are there are served, requests that need a new connection are told why, and once others
    leave, new ones come in; the endpoint is not blamed."""
    with (
        contextlib.ExitStack() as clients,
        socket.create_server(("127.0.0.1", 0)) as endpoint,
        subprocess.Popen(
            [sys.executable, "-c", GATEWAY, str(DESCRIPTORS), str(endpoint.getsockname()[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as gateway,
    ):
        clients.callback(gateway.kill)
        port = int(gateway.stdout.readline())
        first = clients.enter_context(_connect(port))
        assert _healthy(first)
        with contextlib.ExitStack() as crowd:
            _take_all(gateway.pid, lambda: crowd.enter_context(_connect(port)), lambda: _healthy(first))
            status, body = _ask(first, POST)
            assert (status, json.loads(body)["error"]["code"]) == (503, "gateway_exhausted")
            assert _healthy(first)
        _wait_until_served(port)
        assert _healthy(first)
        output, errors = gateway.communicate(timeout=60)
        assert (output, gateway.returncode) == ("0\n", 0)
        assert len(errors) < 10_000


def _take_all(pid: int, connect: Callable[[], object], is_healthy: Callable[[], bool]) -> None:
    """Connects until no descriptor is left, three looks in a row: others were in use for a moment."""
    full, until = 0, time.monotonic() + 60
    while full < 3:
        assert time.monotonic() < until
        assert is_healthy()
        left = DESCRIPTORS - len(os.listdir(f"/proc/{pid}/fd"))
        full = 0 if left > 0 else full + 1
        for _ in range(left):
            connect()


def _wait_until_served(port: int) -> None:
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), _connect(port) as client:
            if _healthy(client):
                return
        assert time.monotonic() < until
        time.sleep(0.01)
