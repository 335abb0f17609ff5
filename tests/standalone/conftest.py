"""Engines that list models, on loopback addresses of their own, and a DNS server whose records tests set."""

import asyncio
import contextlib
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import httpx2
import pytest

PATIENCE_S = 30.0
"""Only turns a hang into a failure."""


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.01)


@dataclass
class Engine:
    """Lists these models, and has the metrics page of vLLM."""

    host: str
    port: int = 0
    models: list[str] = field(default_factory=lambda: ["tiny"])
    adapters: dict[str, str] = field(default_factory=dict)
    page: bytes = b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"
    status: int = 200
    tls: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list)

    async def __aenter__(self) -> "Engine":
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split()[1].decode()
                self.asked.append(path)
                listed: list[dict[str, Any]] = [{"id": each, "parent": None} for each in self.models]
                listed += [{"id": name, "parent": parent} for name, parent in self.adapters.items()]
                body = json.dumps({"data": listed}).encode()
                body = body if path.endswith("/v1/models") else self.page
                writer.write(
                    b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%b" % (self.status, len(body), body)
                )
        writer.transport.abort()
        self._tasks.discard(task)


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers by `records`: for a name and type, the TTL and the texts of the records. Names without records
    do not exist."""

    records: dict[tuple[str, str], tuple[int, list[str]]] = field(default_factory=dict)
    fault: str = ""
    """"silent" or "SERVFAIL"."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""

    def say(self, name: str, kind: str, *texts: str, ttl: int = 0) -> None:
        self.records[name, kind] = ttl, list(texts)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.address = "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])

    def datagram_received(self, data: bytes, addr: Any) -> None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        name, kind = question.name.to_text().rstrip("."), question.to_text().split()[-1]
        self.asked.append((name, kind))
        if self.fault == "silent":
            return
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if self.fault:
            answer.set_rcode(dns.rcode.from_text(self.fault))
        elif (name, kind) in self.records:
            ttl, texts = self.records[name, kind]
            if texts:
                answer.answer.append(dns.rrset.from_text(question.name, ttl, "IN", kind, *texts))
        elif not any(each == name for each, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), addr)


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    """A DNS server."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 0))
    yield server
    transport.close()


@pytest.fixture(name="until")
def _until() -> Callable[[Callable[[], Any]], Any]:
    return until


@pytest.fixture
async def start_engine() -> AsyncIterator[Callable[..., Any]]:
    """Starts engines, by default on a free port of a loopback address; all are stopped at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(host: str = "127.0.0.1", **fields: Any) -> Engine:
            return await stack.enter_async_context(Engine(host, **fields))

        yield start


@dataclass
class Gateway:
    """One `headgate gateway` without an API server, and the views of its operator."""

    process: asyncio.subprocess.Process
    log: Path
    http: httpx2.AsyncClient
    url: str = ""
    metrics_url: str = ""
    admin_url: str = ""

    def said(self) -> str:
        return self.log.read_text()

    async def models(self) -> set[str]:
        listed = (await self.http.get(f"{self.url}/v1/models")).json()
        return {each["id"] for each in listed["data"]}

    async def ask(self, model: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
        return (await self.http.post(f"{self.url}/v1/chat/completions", json=body)).status_code

    async def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(f"{self.admin_url}/debug/objects")).json()
        return found

    async def eventually(self, holds: Callable[[], Awaitable[Any]]) -> None:
        """Until something holds that is looked at from time to time."""
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():
                await asyncio.sleep(0.05)


@pytest.fixture
async def start_gateway(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts gateways with these flags, on ports that the system chooses; all are stopped at the end."""
    started: list[Gateway] = []
    http = httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE_S)

    async def start(*flags: str, **environment: str) -> Gateway:
        log = tmp_path / f"gateway-{len(started)}.log"
        ports = ["--port", "0", "--metrics-port", "0", "--admin-port", "0", "--logging-access-log", "off"]
        with log.open("w") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headgate", "gateway", *ports, *flags),
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
            )
        gateway = Gateway(process, log, http)
        started.append(gateway)
        await until(lambda: "is ready on" in gateway.said() or process.returncode is not None)
        assert process.returncode is None, gateway.said()
        found = re.search(
            r"is ready on (\S+); metrics on (\S+), dashboard on (\S+)/dashboard\n", gateway.said()
        )
        assert found
        gateway.url, gateway.metrics_url, gateway.admin_url = found.groups()
        return gateway

    yield start
    for gateway in started:
        if gateway.process.returncode is None:
            gateway.process.terminate()
            gateway.process.terminate()
            await gateway.process.wait()
    await http.aclose()


@pytest.fixture
async def simulate() -> AsyncIterator[Callable[..., Any]]:
    """Starts simulated engines with these options; gives the URL of each."""
    started: list[asyncio.subprocess.Process] = []

    async def start(*options: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headgate", "simulate", "engine", "--port", "0", *options),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        started.append(process)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = (await process.stdout.readline()).decode()
        return line.split()[-1]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded API server."""
    state = tmp_path_factory.mktemp("apiserver")
    command = "from headgate.cli.apiserver import apiserver; apiserver()"
    arguments = [sys.executable, "-c", command, "--state", str(state), "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("API server ready")
        yield state / "kubeconfig"
        process.terminate()
