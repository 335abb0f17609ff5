"""Gateways as an operator starts them: real processes, a real API server, and traffic that never pauses."""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate import api, cluster

PATIENCE_S = 60.0
"""Only turns a hang into a failure."""
PIECES = 5
PAUSE_S = 0.02
"""Between two requests of a client: traffic that takes the whole machine would only slow the test down."""


# -- what is served


class Engine:
    """Answers every POST: at once, or for streams in pieces with a pause between them. It has no pages."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        """While it is set, streams do not go on after their first piece."""
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE_S)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port: int = server.sockets[0].getsockname()[1]
        self._connections: set[asyncio.Task[None]] = set()
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.current_task())
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                if length is None:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                body = json.loads(await reader.readexactly(int(length[1])))
                if body.get("stream"):
                    counts = (body.get("stream_options") or {}).get("include_usage", False)
                    await self._stream(writer, counts)
                else:
                    answer = json.dumps({"model": body["model"]}).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))
        writer.transport.abort()

    async def _stream(self, writer: asyncio.StreamWriter, counts: bool) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for piece in range(PIECES):
            event = b'data: {"choices":[{"text":"%d"}]}\n\n' % piece
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await asyncio.sleep(0.005)
            while self.hold.is_set():
                await asyncio.sleep(0.005)
        if counts:
            usage = b'{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":14}' % PIECES
            event = b'data: {"choices":[],"usage":%s}\n\n' % usage
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """One engine that all Pods lead to."""
    made = Engine()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Path]:
    """An API server with the model "m": a ModelRoute, a ModelServer, and two Pods."""
    state = tmp_path_factory.mktemp("apiserver")
    command = "from headgate.cli.apiserver import apiserver; apiserver()"
    arguments = [sys.executable, "-c", command, "--state", str(state), "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("API server ready")
        asyncio.run(_declare(state / "kubeconfig", engine.port))
        yield state / "kubeconfig"
        process.terminate()


async def _declare(kubeconfig: Path, port: int) -> None:
    async with cluster.Client.from_kubeconfig(kubeconfig) as client:
        for number in range(2):
            await client.create_manifest(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"engine-{number}",
                        "namespace": "default",
                        "labels": {"app": "m", "half": str(number)},
                        "annotations": {"headgate.dev/address": f"127.0.0.1:{port}"},
                    },
                    "spec": {"containers": [{"name": "engine", "image": "engine"}]},
                }
            )
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
            await client.patch_status(api.Pod, f"engine-{number}", "default", status)
        await client.apply_manifest(model_server("m", {"app": "m"}, port), field_manager="test")
        await client.apply_manifest(model_route("m", "m"), field_manager="test")


def model_server(name: str, selector: dict[str, str], port: int) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": selector},
            "workloadPort": {"port": port},
        },
    }


def model_route(name: str, *targets: str) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "modelName": name,
            "rules": [{"name": "all", "targetModels": [{"modelServerName": target} for target in targets]}],
        },
    }


@pytest.fixture(name="model_server")
def _model_server() -> Callable[..., dict[str, Any]]:
    return model_server


@pytest.fixture(name="model_route")
def _model_route() -> Callable[..., dict[str, Any]]:
    return model_route


# -- the gateway


@dataclass
class Gateway:
    """One `headgate gateway`, and the views of its operator."""

    process: subprocess.Popen[str]
    log: Path
    http: httpx2.Client
    url: str = ""
    metrics_url: str = ""
    admin_url: str = ""

    def get(self, path: str) -> httpx2.Response:
        """A page of the admin port."""
        return self.http.get(f"{self.admin_url}{path}")

    def config(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.get("/debug/config").json()
        return shown

    def workers(self, state: str = "ready") -> list[int]:
        """Their process ids, in the order of the workers."""
        return [each["pid"] for each in self.config()["workers"] if each["state"] == state]

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of a metric that have these labels."""
        page = self.http.get(self.metrics_url).text
        samples = [each for family in text_string_to_metric_families(page) for each in family.samples]
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def said(self) -> str:
        return self.log.read_text()

    async def stop(self) -> int:
        """SIGTERM; gives the exit code."""
        self.signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)


async def eventually(holds: Callable[[], object]) -> None:
    """Until something holds that is looked at from time to time."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.05)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[[Callable[[], object]], Any]:
    return eventually


@pytest.fixture
async def start_gateway(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts gateways with these flags, on ports that the system chooses; all are stopped at the end."""
    started: list[Gateway] = []
    # A connection for each request, as different operators would have.
    http = httpx2.Client(
        trust_env=False, verify=False, timeout=PATIENCE_S, limits=httpx2.Limits(max_keepalive_connections=0)
    )

    async def start(*flags: str) -> Gateway:
        log = tmp_path / f"gateway-{len(started)}.log"
        ports = ["--port", "0", "--metrics-port", "0", "--admin-port", "0"]
        arguments = [sys.executable, "-m", "headgate", "gateway", "--kubeconfig", str(kubeconfig), *ports]
        if "--config" not in flags:
            arguments += ["--logging-access-log", "off"]
        with log.open("w") as output:
            process = subprocess.Popen(  # noqa: ASYNC220 - it only starts
                [*arguments, *flags], stdout=output, stderr=output, text=True
            )
        gateway = Gateway(process, log, http)
        started.append(gateway)
        await eventually(lambda: "is ready on" in gateway.said() or process.poll() is not None)
        assert process.poll() is None, gateway.said()
        found = re.search(
            r"is ready on (\S+); metrics on (\S+), dashboard on (\S+)/dashboard\n", gateway.said()
        )
        assert found
        gateway.url, gateway.metrics_url, gateway.admin_url = found.groups()
        return gateway

    yield start
    for gateway in started:
        if gateway.process.poll() is None:
            gateway.process.terminate()
            gateway.process.terminate()
            gateway.process.wait(PATIENCE_S)
    http.close()


# -- traffic


class Failed(Exception):  # noqa: N818 - reads as what it says
    """A request that was not answered as it should have been."""


@dataclass
class Traffic:
    """Clients that ask one after the other: some on connections that they keep, some streaming."""

    port: int
    served: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _is_over: bool = False

    def start(self, clients: int = 6) -> "Traffic":
        for number in range(clients):
            keeps, stream = number % 3 != 0, number % 2 == 0
            self._tasks.append(asyncio.create_task(self._client(keeps=keeps, stream=stream)))
        return self

    async def stop(self) -> None:
        """Once each client has got its last response: one that leaves before is counted by the gateway, but
        nobody knows when."""
        self._is_over = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    async def more(self, requests: int = 60) -> None:
        """Until so many more requests were served or failed, by new connections and kept ones alike."""
        goal = self._count + requests
        async with asyncio.timeout(PATIENCE_S):
            while self._count < goal:
                await asyncio.sleep(0.005)

    @property
    def _count(self) -> int:
        return self.served.total() + len(self.failures)

    async def _client(self, *, keeps: bool, stream: bool) -> None:
        while not self._is_over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError as error:
                self.failures.append(f"refused: {error!r}")
                await asyncio.sleep(0.01)
                continue
            try:
                while True:
                    began = time.monotonic()
                    may_go_on = await ask(reader, writer, stream=stream)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                    self.served["stream" if stream else "plain"] += 1
                    await asyncio.sleep(PAUSE_S)
                    if self._is_over or not (keeps and may_go_on):
                        break
            except (OSError, EOFError, Failed) as error:
                self.failures.append(f"stream={stream}: {error!r}")
            finally:
                writer.transport.abort()
                await asyncio.sleep(0)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, stream: bool = False) -> bool:
    """One request for the model "m", judged strictly; says whether the connection may be used again."""
    body = json.dumps({"model": "m", "prompt": "hello", "stream": stream}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    if not answer.startswith(b"HTTP/1.1 200"):
        raise Failed(answer + await reader.read(1000))
    length = re.search(rb"content-length: (\d+)", answer)
    if length is not None:
        received = await reader.readexactly(int(length[1]))
    else:
        received = await reader.readuntil(b"\r\n0\r\n\r\n")
        if received.count(b"data: ") != PIECES + 1:
            raise Failed(received)
    return b"connection: close" not in answer


@pytest.fixture
async def start_traffic() -> AsyncIterator[Callable[[Gateway], Traffic]]:
    started: list[Traffic] = []

    def start(gateway: Gateway) -> Traffic:
        traffic = Traffic(int(gateway.url.rpartition(":")[2])).start()
        started.append(traffic)
        return traffic

    yield start
    for traffic in started:
        await traffic.stop()


Connect = Callable[[Gateway], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens connections to the API of a gateway, which are closed at the end."""
    opened: list[asyncio.StreamWriter] = []

    async def open_one(gateway: Gateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        opened.append(writer)
        return reader, writer

    yield open_one
    for writer in opened:
        writer.transport.abort()
    await asyncio.sleep(0)


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[cluster.Client]:
    async with cluster.Client.from_kubeconfig(kubeconfig) as made:
        yield made
