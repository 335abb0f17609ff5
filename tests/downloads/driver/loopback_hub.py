"""A hub on loopback that speaks what its library asks, and breaks connections where a test wants it to.

Other tests that download use it as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 64 << 10


@dataclass
class Repository:
    files: dict[str, bytes]
    commit: str = "c" * 40
    revisions: tuple[str, ...] = ("main",)
    token: str = ""
    """Needed to see a private repository."""
    is_gated: bool = False
    lfs_from: int = 1024
    """Larger files are listed with their SHA-256, smaller ones with the hash of their git blob."""

    def siblings(self) -> list[dict[str, Any]]:
        return [self._sibling(path, content) for path, content in self.files.items()]

    def _sibling(self, path: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        known = {"rfilename": path, "size": len(content), "blobId": blob}
        if len(content) >= self.lfs_from:
            lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            known |= {"lfs": lfs}
        return known


@dataclass
class Hub:
    """State of the server; tests change it while it runs."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=lambda: {"good"})
    cut: Callable[[str, int], int | None] = lambda path, length: None
    """After how many bytes of a response the connection breaks; None: it does not."""
    answer: Callable[[BaseHTTPRequestHandler], bool] = lambda handler: False
    """Returns whether it has answered a request in another way."""
    pace_s: float = 0.0
    """Before each piece of a response."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Paths and ranges."""
    sent_bytes: int = 0
    url: str = ""

    def reads(self, path: str) -> list[str]:
        return [ranges for requested, ranges in self.requests if requested.endswith(f"/{path}")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.hub.requests.append((path, self.headers.get("Range", "")))
        if self.hub.answer(self):
            return
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._model(found[1], found[2] or "main")
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(*found.groups())
        else:
            self.fail(404, "EntryNotFound")

    def _model(self, name: str, revision: str) -> None:
        if (repository := self._allowed(name, revision)) is None:
            return
        info = {
            "id": name,
            "sha": repository.commit,
            "siblings": repository.siblings(),
            "gated": repository.is_gated,
        }
        self.respond(json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _allowed(self, name: str, revision: str) -> Repository | None:
        authorization = self.headers.get("Authorization", "")
        if authorization and authorization.removeprefix("Bearer ") not in self.hub.tokens:
            return self.fail(401, "", "Invalid credentials in Authorization header")
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.token and authorization != f"Bearer {repository.token}"):
            return self.fail(404 if authorization else 401, "RepoNotFound")
        if revision not in (repository.commit, *repository.revisions):
            return self.fail(404, "RevisionNotFound")
        return repository

    def _file(self, name: str, revision: str, path: str) -> None:
        if (repository := self._allowed(name, revision)) is None:
            return None
        if repository.is_gated:
            return self.fail(403 if self.headers.get("Authorization") else 401, "GatedRepo")
        if path not in repository.files:
            return self.fail(404, "EntryNotFound")
        content = repository.files[path]
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": repository.commit}
        if found := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            start, end = int(found[1]), min(int(found[2]) + 1, len(content))
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
            return self.respond(content[start:end], headers, 206)
        return self.respond(content, headers)

    def fail(self, status: int, code: str, message: str = "") -> None:
        self.respond(b"{}", {"X-Error-Code": code, "X-Error-Message": message or code}, status)

    def respond(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = (
            self.hub.cut(self.path, len(body)) if status in (200, 206) and "/resolve/" in self.path else None
        )
        with contextlib.suppress(ConnectionError):
            for place in range(0, len(body) if cut is None else cut, PIECE):
                time.sleep(self.hub.pace_s)
                self.wfile.write(body[place : min(place + PIECE, len(body) if cut is None else cut)])
                self.hub.sent_bytes += PIECE
        if cut is not None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Clients that are killed."""


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub without repositories, at the address `url`."""
    state = Hub()
    handler = type("Handler", (_Handler,), {"hub": state})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield state
        server.shutdown()
        thread.join()
