"""Sources of downloads on loopback: a hub, and a real S3 server."""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from headgate.downloads import signing
from headgate.downloads.sources import Credentials

sys.path.insert(0, str(Path(__file__).parent / "driver"))

from loopback_hub import Hub, Repository, running_hub


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub() as hub:
        yield hub


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
