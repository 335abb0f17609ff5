"""Sidecars and simulated engines, each a process of its own on loopback."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

HEADGATE = (sys.executable, "-c", "from headgate.cli import main; main()")
LIMIT_S = 60.0


class Running:
    """One process, its log, and a client of its port."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log
        self.client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT_S)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), LIMIT_S)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds; an engine that cannot be reached yet does not."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if await holds():
                    return
            await asyncio.sleep(0.05)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]:
    return until


@pytest.fixture
async def start(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Start `headgate WORDS --host 127.0.0.1 --port PORT` and wait until it is healthy."""
    async with contextlib.AsyncExitStack() as stack:

        async def run(*words: str, port: int = 0, env: dict[str, str] | None = None) -> Running:
            port = port or unused_tcp_port_factory()
            log = tmp_path / f"{words[0]}-{port}.log"
            with log.open("ab") as out:
                process = await asyncio.create_subprocess_exec(
                    *HEADGATE,
                    *words,
                    *("--host", "127.0.0.1", "--port", str(port)),
                    stdout=out,
                    stderr=out,
                    env={**os.environ, **(env or {})},
                )
            running = Running(process, port, log)
            stack.push_async_callback(running.client.aclose)
            stack.push_async_callback(running.kill)

            async def is_healthy() -> bool:
                assert process.returncode is None, log.read_text()
                return (await running.client.get("/health")).status_code == 200

            await until(is_healthy)
            return running

        yield run


@pytest.fixture
def engine(start: Callable[..., Awaitable[Running]]) -> Callable[..., Awaitable[Running]]:
    """Start a simulated engine with the model `tiny`."""

    async def run(*more: str, **options: Any) -> Running:
        return await start("simulate", "engine", "--model", "tiny", *more, **options)

    return run


@pytest.fixture
def sidecar(start: Callable[..., Awaitable[Running]], tmp_path: Path) -> Callable[..., Awaitable[Running]]:
    """Start a sidecar of an engine, or of whatever is at a port."""

    async def run(engine: Running | int, *more: str, **options: Any) -> Running:
        port = engine if isinstance(engine, int) else engine.port
        base = ("--engine-base-url", f"http://127.0.0.1:{port}")
        return await start("runtime", *base, "--state-dir", str(tmp_path / "state"), *more, **options)

    return run
