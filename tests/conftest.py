"""What makes tests the same on every machine, and short: time that passes at once, a plan for the workers."""

import asyncio
import contextlib
import functools
import gzip
import http.server
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpcore2
import hypothesis
import pytest
import uvloop
from xdist.scheduler import LoadScopeScheduling

# Containers like to forbid it, but then each of the many processes that tests start compiles all of Headgate.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what runs in its background with Ctrl-C ignored, and so would be all that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The messages of Envoy (see the Makefile).
sys.path.append(str(Path(sys.prefix) / "protos"))

# Each client of HTTP would read the certificates of all authorities again, which takes 60 ms of a CPU.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

# The same examples each time, however long they take. --hypothesis-profile=explore tries others, and more.
hypothesis.settings.register_profile(
    "explore", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=250
)
hypothesis.settings.register_profile(
    "same", hypothesis.settings.get_profile("explore"), derandomize=True, max_examples=25
)
hypothesis.settings.load_profile("same")

NO_KUBECTL = (
    "there is no kubectl: install 1.29 or newer, name one in HEADGATE_KUBECTL, or let `make kubectl` fetch it"
)


def _find_kubectl() -> bool:
    """Whether there is one. The one that `make kubectl` has fetched is put on the path."""
    if os.environ.get("HEADGATE_KUBECTL") or shutil.which("kubectl"):
        return True
    tool = Path(__file__).parents[1] / "tools" / "fetch_kubectl.sh"
    fetched = Path(
        subprocess.run([tool, "--path"], capture_output=True, text=True, check=True).stdout.strip()
    )
    if not fetched.exists():
        return False
    os.environ["PATH"] += f"{os.pathsep}{fetched.parent}"
    return True


HAS_KUBECTL = _find_kubectl()

NO_ENGINE = (
    "there is no vLLM: let `make real-engine` install one, or name a Python that has it in "
    "HEADGATE_TEST_ENGINE_PYTHON"
)


def _find_engine() -> str | None:
    """The Python that has vLLM: the one that is named, or that of `make real-engine`."""
    if named := os.environ.get("HEADGATE_TEST_ENGINE_PYTHON"):
        return named
    tool = Path(__file__).parents[1] / "tools" / "real_engine.sh"
    installed = Path(
        subprocess.run([tool, "--path"], capture_output=True, text=True, check=True).stdout.strip()
    )
    return str(installed) if (installed.parents[1] / ".complete").exists() else None


ENGINE_PYTHON = _find_engine()


NO_CHROMIUM = "there is no Chromium: let `make chromium` install one, or name one in HEADGATE_CHROMIUM"


def _find_chromium() -> str:
    """The browser that is named, or on the path; empty if there is none."""
    tool = Path(__file__).parents[1] / "tools" / "fetch_chromium.sh"
    return subprocess.run([tool, "--path"], capture_output=True, text=True, check=True).stdout.strip()


CHROMIUM = _find_chromium()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program of the browser."""
    if not CHROMIUM:
        pytest.skip(NO_CHROMIUM)
    return CHROMIUM


def pytest_configure(config: pytest.Config) -> None:
    """Removes compiled modules of other sources, which Python would import instead of these."""
    if not hasattr(config, "workerinput"):
        tool = Path(__file__).parents[1] / "tools" / "compile.py"
        subprocess.run([sys.executable, tool, "fresh"], check=True)


def pytest_report_header() -> list[str]:
    missing = [] if HAS_KUBECTL else [f"Tests that need kubectl are skipped: {NO_KUBECTL}"]
    missing += [] if CHROMIUM else [f"Tests that need a browser are skipped: {NO_CHROMIUM}"]
    return missing if ENGINE_PYTHON else [*missing, f"Tests of a real engine are skipped: {NO_ENGINE}"]


@pytest.fixture(scope="session")
def engine_python() -> str:
    """The Python that has vLLM."""
    if ENGINE_PYTHON is None:
        pytest.skip(NO_ENGINE)
    return ENGINE_PYTHON


LONG = ("soak", "whole", "workers", "conformance", "docs", "apiserver", "cli", "controllers", "image")
"""Folders of tests that start processes. They come first, so that nobody waits for a long test in the end."""

HELD_PORTS = 100

_close_loop = uvloop.Loop.close


def _close_loudly(loop: uvloop.Loop) -> None:
    """Fails the test that leaves something open on its loop.

    uvloop warns of it where no exception can be raised: as an error, the warning would appear in a later
    test, and the loop would wait for ever for what it did not close.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        _close_loop(loop)
    left = [str(each.message) for each in told if issubclass(each.category, ResourceWarning)]
    if left:
        raise ResourceWarning(f"{'; '.join(left)} (PYTHONASYNCIODEBUG=1 tells where it was opened)")


uvloop.Loop.close = _close_loudly  # type: ignore[method-assign]

Story = Callable[["VirtualLoop"], Coroutine[Any, Any, Any]]


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on which every wait ends at once, and at exactly its time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits = 0
        """How often it slept until something was due."""
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now

    def stall(self, seconds: float) -> None:
        """As if a callback had kept the loop busy for so long."""
        self.now += seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and nothing is due"
        if timeout > 0:
            self._loop.waits += 1
            self._loop.now += timeout
        return super().select(0)


@pytest.fixture(scope="session")
def unused_tcp_port_factory() -> Iterator[Callable[[], int]]:
    """Makes ports for what must know its port before it listens; below those that the system chooses, which
    it may give to somebody else meanwhile. Each worker of pytest has ports of its own.

    A socket that is bound but does not listen keeps the port from other runs of the tests on this machine. A
    server can listen there beside it, since both set SO_REUSEADDR, as servers do.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    candidates = list(range(12_000 + worker, 32_000, workers))
    random.SystemRandom().shuffle(candidates)
    held: deque[socket.socket] = deque()

    def take() -> int:
        if len(held) >= HELD_PORTS:  # whoever took this one listens there by now, or has ended
            held.popleft().close()
        while True:
            port = candidates.pop()
            sock = socket.socket()
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                sock.close()
                continue
            # Only now: this port was nobody's.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.append(sock)
            return port

    yield take
    for sock in held:
        sock.close()


@pytest.fixture
def unused_tcp_port(unused_tcp_port_factory: Callable[[], int]) -> int:
    return unused_tcp_port_factory()


@pytest.fixture
def held_port() -> Iterator[Callable[[], int]]:
    """Makes ports of 127.0.0.1 that refuse connections whenever the test's own server does not listen there.

    The system gives a port that is merely free to whoever asks for any: to a server of another test, or to
    the one under test itself. A socket that is bound but does not listen keeps the port. A server can listen
    there beside it, since both set SO_REUSEADDR, as asyncio does for servers.
    """
    with contextlib.ExitStack() as stack:

        def take() -> int:
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", 0))
            port: int = sock.getsockname()[1]
            return port

        yield take


@pytest.fixture
def in_virtual_time() -> Callable[[Story], Any]:
    """Runs a story that is given its loop; for what has no sockets, threads or processes to wait for."""

    def run(story: Story) -> Any:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            return runner.run(story(loop))

    return run


class Scheduling(LoadScopeScheduling):
    """A worker has all tests of a module, which share fixtures, and of a folder that shares a machine."""

    def _split_scope(self, nodeid: str) -> str:
        _, folder, *below = nodeid.split("/")
        return folder if folder in ("whole", "image") and len(below) == 1 else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from headgate.telemetry.build import installed

    is_compiled = installed().form == "compiled"
    for item in items:
        if is_compiled and item.get_closest_marker("counts_calls"):
            item.add_marker(pytest.mark.skip(reason="methods of compiled classes cannot be replaced"))
        if not HAS_KUBECTL and item.get_closest_marker("kubectl"):
            item.add_marker(pytest.mark.skip(reason=NO_KUBECTL))

    def place(item: pytest.Item) -> int:
        folder = item.nodeid.split("/")[1]
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=place)


# -- traces


class Collector:
    """A collector of traces by OTLP over HTTP. `status` is that of its responses; while `is_stuck` is set, it
    does not respond."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        self.status = 200
        self.is_stuck = threading.Event()
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.requests: list[dict[str, str]] = []
        """The headers of each."""
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                while collector.is_stuck.is_set():
                    time.sleep(0.01)
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.requests.append({"path": self.path, **dict(self.headers)})
                if collector.status == 200:
                    collector.take(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def take(self, message: Any) -> None:
        for each in message.resource_spans:
            self.resources.append(attributes_of(each.resource))
            self.spans += [span for scope in each.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self.is_stuck.clear()
        self._server.shutdown()
        self._server.server_close()


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of a span or resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in thing.attributes}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Spans reach it soon after their request."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    made = Collector()
    yield made
    made.close()


@pytest.fixture(name="attributes_of")
def _attributes_of() -> Callable[[Any], dict[str, Any]]:
    return attributes_of
