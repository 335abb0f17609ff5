"""Client libraries as users run them, over a line that can be cut, to a server that can be restarted."""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml


class Line:
    """A TCP proxy on loopback: what stands between a client and its API server.

    One thread moves the bytes of all connections; `cut` ends them and refuses new ones until `mend`.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._is_cut = False
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for end in list(self._peers):
                self._drop(end)

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.cut()
        self._listener.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            ready = self._selector.select(0.05)
            with self._lock:
                for key, _ in ready:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._peers:
                        self._move(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            if self._is_cut:
                raise ConnectionRefusedError
            far = socket.create_connection(self._target, timeout=5)
        except OSError:
            near.close()
            return
        self._peers |= {near: far, far: near}
        for end in (near, far):
            self._selector.register(end, selectors.EVENT_READ)

    def _move(self, end: socket.socket) -> None:
        try:
            data = end.recv(65536)
            self._peers[end].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        other = self._peers.pop(end, None)
        if other is None:
            return
        del self._peers[other]
        for socket_ in (end, other):
            with suppress(KeyError):
                self._selector.unregister(socket_)
            socket_.close()


def _through(kubeconfig: Path, line: Line, copy: Path) -> Path:
    """A kubeconfig that reaches the same server over a line, and still knows its name."""
    config = yaml.safe_load(kubeconfig.read_text())
    for entry in config["clusters"]:
        url = urlsplit(entry["cluster"]["server"])
        entry["cluster"]["server"] = f"{url.scheme}://127.0.0.1:{line.port}"
        if url.scheme == "https" and url.hostname != "127.0.0.1":
            entry["cluster"]["tls-server-name"] = url.hostname
    copy.write_text(yaml.safe_dump(config))
    return copy


def _address(kubeconfig: Path) -> tuple[str, int]:
    config = yaml.safe_load(kubeconfig.read_text())
    contexts = {entry["name"]: entry["context"] for entry in config["contexts"]}
    clusters = {entry["name"]: entry["cluster"] for entry in config["clusters"]}
    url = urlsplit(clusters[contexts[config["current-context"]]["cluster"]]["server"])
    assert url.hostname
    return url.hostname, url.port or 443


@pytest.fixture
def line_to(tmp_path: Path) -> Iterator[Callable[[Path], tuple[Line, Path]]]:
    """Lays lines to the servers of kubeconfigs, each with a kubeconfig whose connections go over it."""
    made: list[Line] = []

    def lay(kubeconfig: Path) -> tuple[Line, Path]:
        made.append(Line(*_address(kubeconfig)))
        return made[-1], _through(kubeconfig, made[-1], tmp_path / f"over-line-{len(made)}")

    yield lay
    for line in made:
        line.close()


@pytest.fixture
def _lined(server: Any, line_to: Any) -> Any:
    return line_to(server.kubeconfig)


@pytest.fixture
def line(_lined: tuple[Line, Path]) -> Line:
    """The line to the API server under test."""
    return _lined[0]


@pytest.fixture
def kubeconfig(_lined: tuple[Line, Path]) -> Path:
    """A kubeconfig whose connections go over the line."""
    return _lined[1]


class Restartable:
    """An embedded API server of its own, with everything that it stores."""

    def __init__(self, state: Path) -> None:
        self.kubeconfig = state / "kubeconfig"
        self._state = state
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = "from headgate.cli.apiserver import apiserver; apiserver()"
        arguments = [sys.executable, "-c", command, "--state", str(self._state), "--port", self._port]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        assert self._process.stdout.readline().startswith("API server ready")
        self._port = str(_address(self.kubeconfig)[1])

    def stop(self) -> None:
        assert self._process
        with self._process as process:
            process.terminate()
        self._process = None


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    """An embedded API server that can be stopped and started; then it tells nothing of before."""
    made = Restartable(tmp_path / "state")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def is_expired() -> Callable[[Path, str, str], bool]:
    """Whether the server has nothing to tell any more to who saw a list up to this version."""

    def found(kubeconfig: Path, path: str, version: str) -> bool:
        from api_server import ApiServer

        server = ApiServer(kubeconfig)
        watching = server.watch(path, resourceVersion=version)
        try:
            event = watching.event()
            return event["type"] == "ERROR" and event["object"]["code"] == 410
        finally:
            watching.close()
            server.close()

    return found


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Waits until something is so; fails after a minute."""

    def wait(so: Callable[[], bool]) -> None:
        pause, waited = threading.Event(), 0.0
        while not so():
            assert waited < 60, "it did not come to be"
            pause.wait(0.05)
            waited += 0.05

    return wait
