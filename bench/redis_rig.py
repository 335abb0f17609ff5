"""A private Redis, and a proxy to it that can be slow, cut or closed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FETCHED = ROOT / ".cache" / "redis" / "usr" / "bin" / "redis-server"
START_S = 20.0

MISSING = (
    "there is no redis-server, which limits that gateways share need: run `make redis-server`, which fetches "
    "Debian's, or install one (apt-get install redis-server), or name one in HEADGATE_REDIS_SERVER"
)


def binary() -> str:
    """The path of redis-server. Raises FileNotFoundError that says what to do."""
    named = os.environ.get("HEADGATE_REDIS_SERVER")
    found = named or shutil.which("redis-server") or (str(FETCHED) if FETCHED.exists() else None)
    if found is None:
        raise FileNotFoundError(MISSING)
    return found


class RedisServer:
    """One redis-server without persistence, on a socket in its own directory."""

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self.path = str(directory / "redis.sock")
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it empty, however often it was started before."""
        argv = [binary(), "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no"]
        argv += ["--dir", str(self._directory), "--loglevel", "warning"]
        argv += self._options
        libraries = sorted({str(each.parent) for each in FETCHED.parents[1].rglob("*.so*")})
        environment = dict(os.environ)
        if argv[0] == str(FETCHED) and libraries:
            environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        self._process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL)
        until = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{argv[0]} does not start: try it by hand")
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(START_S)
            with suppress(OSError):
                sock.connect(self.path)
                sock.sendall(b"PING\r\n")
                return bool(sock.recv(64))
        return False

    def stop(self) -> None:
        """Stop it; its data is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            Path(self.path).unlink(missing_ok=True)

    def freeze(self) -> None:
        """It stops responding, but keeps its data."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    """Run one with additional command line options; it ends with the context."""
    with tempfile.TemporaryDirectory(prefix="hg-redis-") as directory:
        server = RedisServer(Path(directory), options)
        try:
            server.start()
            yield server
        finally:
            server.stop()


class Way:
    """Listens on a loopback port, and forwards to the Redis at a path and back."""

    def __init__(self, path: str, port: int = 0) -> None:
        self._path = path
        self.port = port
        """0 for any port, until it is open."""
        self.delay_s = 0.0
        """Added delay of responses."""
        self.cut_after: int | None = None
        """Each connection breaks after this many bytes of responses."""
        self.connections = 0
        self.passed = 0
        """Pieces sent to Redis."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections, and break the existing ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        try:
            below, above = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)
            return
        self._writers.add(above)
        try:
            back = asyncio.create_task(self._pass_back(below, writer))
            with suppress(OSError):
                while data := await reader.read(65536):
                    self.passed += 1
                    above.write(data)
                    await above.drain()
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
        except asyncio.CancelledError:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
        finally:
            for each in (writer, above):
                each.transport.abort()
                self._writers.discard(each)
            self._tasks.discard(task)

    async def _pass_back(self, below: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await below.read(65536):
                passed += len(data)
                if self.cut_after is not None and passed > self.cut_after:
                    writer.write(data[: len(data) - (passed - self.cut_after)])
                    await writer.drain()
                    break
                if self.delay_s:
                    loop.call_later(self.delay_s, _write, writer, data)
                else:
                    writer.write(data)
        if not self.delay_s:
            writer.transport.abort()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.transport.is_closing():
        writer.write(data)
