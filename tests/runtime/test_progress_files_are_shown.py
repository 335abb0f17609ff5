"""GET /v1/downloads shows what downloads write into the state directory."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime import progress

STATUS = {
    "name": "base",
    "source": "hf://org/base",
    "directory": "/weights/1",
    "phase": "Downloading",
    "bytes_done": 5,
    "bytes_total": 10,
    "bytes_per_s": 2.5,
    "updated": "2026-01-01T00:00:00Z",
}


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "state" / "downloads"
    path.mkdir(parents=True)
    return path


async def test_files_become_a_list(directory, sidecar, unused_tcp_port):
    """Sorted by name; none before the first file. First those of the state directory itself."""
    beside = await sidecar(unused_tcp_port)
    assert (await beside.client.get("/v1/downloads")).json() == {"downloads": []}
    failed = {**STATUS, "phase": "Failed", "error": {"reason": "NotFound", "message": "no such repository"}}
    (directory / "base.json").write_text(json.dumps(STATUS))
    (directory / "adapter.json").write_text(json.dumps(failed))
    (directory.parent / "weights.json").write_text(json.dumps(STATUS))
    shown = (await beside.client.get("/v1/downloads")).json()["downloads"]
    assert shown == [{**STATUS, "name": "weights"}, {**failed, "name": "adapter"}, STATUS]


def test_other_files_are_skipped(directory):
    """Large ones, links, pipes, directories, and what is not of this form."""
    (directory / "good.json").write_text(json.dumps(STATUS))
    (directory / "large.json").write_text(json.dumps({**STATUS, "source": "x" * 20_000}))
    (directory / "link.json").symlink_to(directory / "good.json")
    os.mkfifo(directory / "pipe.json")
    (directory / "directory.json").mkdir()
    (directory / ".good.json.5.new").write_text(json.dumps(STATUS))
    (directory / "deep.json").write_bytes(b"[" * 10_000)
    (directory / "huge.json").write_text(json.dumps({**STATUS, "bytes_total": 10**30}))
    (directory / "negative.json").write_text(json.dumps({**STATUS, "bytes_done": -1}))
    assert [each.name for each in progress.read(directory)] == ["good"]


def test_the_number_of_files_is_bounded(directory):
    """The first by name are shown."""
    for number in range(200):
        (directory / f"{number:03}.json").write_text(json.dumps(STATUS))
    assert len(progress.read(directory)) == progress.MAX_FILES


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps)
)
def test_any_content_is_tolerated(tmp_path_factory, content):
    """It is shown or skipped."""
    directory = tmp_path_factory.mktemp("downloads")
    (directory / "a.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert len(progress.read(directory)) <= 1
