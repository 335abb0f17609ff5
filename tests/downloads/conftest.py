"""A hub on loopback that speaks what its library asks, and breaks connections where a test wants it to."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.downloads import signing
from headgate.downloads.sources import Credentials

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


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()
    handler = type("Handler", (_Handler,), {"hub": state})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture
def repository(hub: Hub) -> Repository:
    """A small model: shards of several parts, and small files."""
    shard = bytes(range(256)) * (1 << 16)
    found = Repository(
        {
            "config.json": b'{"architectures": []}',
            "model-00001.safetensors": shard + b"first" * 100_000,
            "model-00002.safetensors": shard[::-1] + b"second",
            "tokenizer/tokenizer.json": b"{}" * 5000,
            "empty.txt": b"",
        }
    )
    hub.repositories["org/name"] = found
    return found


Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(hub: Hub, tmp_path: Path) -> Iterator[Run]:
    """Starts `headgate` with these arguments, against the hub."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **variables: str) -> subprocess.Popen[str]:
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headgate", *map(str, arguments)],
            env={**keep, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class Objects:
    """A real S3 server, with a bucket for each test."""

    url: str
    bucket: str
    http: httpx2.Client

    @property
    def environment(self) -> dict[str, str]:
        return {"ENDPOINT": self.url, "ACCESS_KEY": "key", "SECRET_KEY": "secret"}

    def send(self, method: str, key: str, body: bytes = b"", **query: str) -> httpx2.Response:
        path = signing.quoted(f"/{self.bucket}/{key}".rstrip("/"), safe="/")
        url = httpx2.URL(self.url)
        host = url.netloc.decode()
        headers = signing.headers(
            method, host, path, query, "us-east-1", Credentials("key", "secret"), body=body
        )
        target = f"{self.url}{path}?{signing.query_text(query)}"
        found = self.http.request(method, target, headers=headers, content=body)
        assert found.status_code in (200, 204), found.text
        return found

    def put(self, key: str, body: bytes) -> None:
        self.send("PUT", key, body)

    def put_in_parts(self, key: str, parts: list[bytes]) -> None:
        begun = self.send("POST", key, uploads="").text
        upload = begun.partition("<UploadId>")[2].partition("<")[0]
        done = ""
        for number, part in enumerate(parts, 1):
            etag = self.send("PUT", key, part, partNumber=str(number), uploadId=upload).headers["ETag"]
            done += f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
        complete = f"<CompleteMultipartUpload>{done}</CompleteMultipartUpload>"
        self.send("POST", key, complete.encode(), uploadId=upload)


@pytest.fixture(scope="session")
def s3_server(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]
) -> Iterator[str]:
    program = s3_program()
    if program is None:
        pytest.skip("there is no S3 server: install versitygw, or run tools/fetch_s3_server.sh")
    folder = tmp_path_factory.mktemp("s3")
    (folder / "objects").mkdir()
    address = f"127.0.0.1:{unused_tcp_port_factory()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--port", address, "posix", folder / "objects"],
            env={"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"},
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(300):
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(f"http://{address}/")
                break
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


_buckets = itertools.count()


@pytest.fixture
def objects(s3_server: str) -> Iterator[Objects]:
    with httpx2.Client(timeout=60) as http:
        found = Objects(s3_server, f"bucket-{next(_buckets)}", http)
        found.send("PUT", "")
        yield found


def s3_program() -> str | None:
    """The S3 server that tests use, as tools/fetch_s3_server.sh looks for it."""
    if named := os.environ.get("HEADGATE_S3_SERVER") or shutil.which("versitygw"):
        return named
    tool = Path(__file__).parents[2] / "tools" / "fetch_s3_server.sh"
    built = subprocess.run([tool, "--path"], capture_output=True, text=True, check=True).stdout.strip()
    return built if Path(built).exists() else None


def pytest_report_header() -> list[str]:
    if s3_program() is not None:
        return []
    return ["Tests that need an S3 server are skipped: install versitygw, or run tools/fetch_s3_server.sh"]
