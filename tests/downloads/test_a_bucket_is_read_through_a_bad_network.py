"""A real S3 server behind a network that cuts connections, and objects that change while they are read."""

import contextlib
import itertools
import os
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from headgate import downloads
from headgate.downloads.retries import Backoff

QUICK = downloads.Options(backoff=Backoff(first_s=0.001, longest_s=0.01))


class Network:
    """Passes connections on to a server, each for as many bytes as `allowance` says; then it is cut."""

    def __init__(self, server: str) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self.allowance = lambda: 1 << 40
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            try:
                if client.recv(1, socket.MSG_PEEK) == b"!":
                    return client.close()
            except ConnectionResetError:
                client.close()
                continue
            upstream = socket.create_connection(self._server)
            threading.Thread(target=self._pass, args=(client, upstream), daemon=True).start()
            threading.Thread(target=self._return, args=(upstream, client), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def _return(self, source: socket.socket, target: socket.socket) -> None:
        left = self.allowance()
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(65536):
                target.sendall(data[:left])
                left -= len(data)
                if left <= 0:
                    self.cuts += 1
                    target.shutdown(socket.SHUT_RDWR)
                    return

    def close(self) -> None:
        with socket.create_connection(self._listener.getsockname()) as last:
            last.sendall(b"!")
            self._thread.join()
        self._listener.close()


@pytest.fixture
def network(s3_server: str) -> Iterator[Network]:
    found = Network(s3_server)
    yield found
    found.close()


@pytest.mark.parametrize("seed", range(4))
def test_objects_are_continued_at_any_byte(network, objects, tmp_path, seed):
    """Listings are repeated, and objects continued."""
    rng = random.Random(seed)
    content = {f"part-{number}": os.urandom(rng.randrange(20_000_000)) for number in range(3)}
    for name, data in content.items():
        objects.put(f"model/{name}", data)
    network.allowance = lambda: rng.choice([1 << 40, rng.randrange(1, 5_000_000), rng.randrange(1, 20_000)])
    environment = {**objects.environment, "ENDPOINT": network.url}

    downloads.fetch(f"s3://{objects.bucket}/model", tmp_path / "model", environment, options=QUICK)

    assert network.cuts
    for name, data in content.items():
        assert (tmp_path / "model" / name).read_bytes() == data


def test_an_object_that_changes_is_read_from_one_version(network, objects, tmp_path):
    """If-Match notices it; the source is listed again."""
    old, new = os.urandom(40_000_000), os.urandom(40_000_000)
    objects.put("model/weights", old)
    connections, changed = itertools.count(), threading.Event()

    def report(now: downloads.Snapshot) -> None:
        if now.phase == "Downloading" and now.bytes_done > 1_000_000 and not changed.is_set():
            objects.put("model/weights", new)
            changed.set()

    def allowance() -> int:
        """The first five connections get less than the whole, and the others wait for the change."""
        return 3_000_000 if next(connections) < 5 or changed.wait(200) else 0

    network.allowance = allowance
    environment = {**objects.environment, "ENDPOINT": network.url}
    options = downloads.Options(connections=1, backoff=QUICK.backoff)

    downloads.fetch(
        f"s3://{objects.bucket}/model", tmp_path / "model", environment, options=options, report=report
    )

    assert changed.is_set()
    assert (tmp_path / "model/weights").read_bytes() == new
