"""Container logs: what is kept of them, and how they are asked for."""

import asyncio
import os
import signal
import time
from contextlib import aclosing, closing, suppress
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.node import log_files, log_reading, logs, processes

START = 1_700_000_000.0


@pytest.fixture
def directory(tmp_path: Path) -> log_files.LogDirectory:
    return log_files.LogDirectory(tmp_path)


def open_run(directory: log_files.LogDirectory, run: int = 0) -> log_files.LogWriter:
    return directory.open_run(directory.pod("ns", "pod", "uid") / "main", run)


async def read(directory: log_files.LogDirectory, previous: bool = False, **options) -> str:
    file = directory.newest("ns", "pod", "main", previous=previous)
    assert file is not None
    chosen = log_reading.LogOptions(**options)
    chunks = [chunk async for chunk in log_reading.read(file, chosen, lambda: directory.is_live(file))]
    return b"".join(chunks).decode()


@settings(deadline=None, max_examples=50)
@given(text=st.text(alphabet="ab\n", max_size=60), cuts=st.lists(st.integers(0, 60), max_size=5))
def test_lines_come_through_however_they_were_cut(tmp_path_factory, text, cuts):
    """The chunks in which output arrives leave no trace in the log."""
    directory = log_files.LogDirectory(tmp_path_factory.mktemp("logs"))
    data, writer = text.encode(), open_run(directory)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        writer.write(data[start:end], START)
    writer.close(START)
    wanted = text if not text or text.endswith("\n") else text + "\n"
    assert asyncio.run(read(directory)) == wanted


async def test_a_log_is_bounded_and_keeps_the_end(tmp_path):
    """When both files are full the oldest lines go; endless lines are cut."""
    directory = log_files.LogDirectory(tmp_path)
    file = open_run(directory)
    file.close(START)
    run = tmp_path / "ns_pod_uid" / "main" / "0.log"
    small = log_files.LogWriter(log_files.LogFile(run), max_file_bytes=1000)
    for number in range(200):
        small.write(f"line {number}\n".encode(), START)
    small.write(b"x" * 40_000 + b"\n", START)
    small.close(START)
    text = await read(directory)
    assert "line 0\n" not in text
    assert max(map(len, text.splitlines())) == log_files.MAX_LINE_BYTES
    assert sum(path.stat().st_size for path in run.parent.iterdir()) < 44_000


async def test_options_choose_lines(directory):
    """tail, since, timestamps and a limit of bytes, each as kubectl means it."""
    writer = open_run(directory)
    for number in range(5):
        writer.write(f"line {number}\n".encode(), START + number)
    writer.close(START)
    assert await read(directory, tail_lines=2) == "line 3\nline 4\n"
    assert await read(directory, tail_lines=0) == ""
    assert await read(directory, since="2023-11-14T22:13:23.5") == "line 4\n"
    assert await read(directory, timestamps=True, tail_lines=1) == "2023-11-14T22:13:24.000000000Z line 4\n"
    assert await read(directory, limit_bytes=9) == "line 0\nli"


async def test_following_ends_with_the_run_and_survives_rotation(tmp_path):
    """A follower gets every line once, across a rotation, and its end when the run ends."""
    file = log_files.LogFile(tmp_path / "0.log")
    live = True
    writer = log_files.LogWriter(file, max_file_bytes=300)
    writer.write(b"first\n", START)

    async def write() -> None:
        nonlocal live
        for number in range(12):
            await asyncio.sleep(0.02)
            writer.write(f"line {number}\n".encode(), START)
        writer.close(START)
        live = False

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        options = log_reading.LogOptions(follow=True)
        text = b"".join([chunk async for chunk in log_reading.read(file, options, lambda: live)]).decode()
    assert text.splitlines() == ["first", *(f"line {number}" for number in range(12))]


async def test_a_follower_holds_one_file_open(tmp_path, monkeypatch):
    """However often the log rotates, nothing of the past is kept open, which would keep its disk space."""
    monkeypatch.setattr(log_reading, "_POLL_S", 0.001)
    file = log_files.LogFile(tmp_path / "0.log")
    writer = log_files.LogWriter(file, max_file_bytes=50)
    async with aclosing(log_reading.read(file, log_reading.LogOptions(follow=True), lambda: True)) as chunks:
        for number in range(20):
            writer.write(f"line {number}\n".encode(), START)
            assert await anext(chunks) == f"line {number}\n".encode()
        assert len(open_below(tmp_path)) <= 3  # the writer's, and at most two of the reader amid a rotation
    assert len(open_below(tmp_path)) == 1
    writer.close(START)


def open_below(directory: Path) -> list[str]:
    """The files below a directory that this process has open, deleted ones included."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(link))
    return [path for path in found if path.startswith(str(directory))]


async def test_the_server_answers_what_there_is(directory):
    """GET .../logs/{namespace}/{pod}/{container}: text, 404 with a reason, 400 for a number that is none."""
    for run, words in ((0, b"before\n"), (1, b"now\n")):
        writer = open_run(directory, run)
        writer.write(words, START)
        writer.close(START)
    transport = httpx2.ASGITransport(logs.application(directory, "secret"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://node/secret") as client:
        assert (await client.get("/logs/ns/pod/main")).text == "now\n"
        assert (await client.get("/logs/ns/pod/main?previous=true")).text == "before\n"
        missing = await client.get("/logs/ns/other/main")
        assert (missing.status_code, "'other'" in missing.text) == (404, True)
        assert (await client.get("/logs/ns/pod/main?tailLines=-1")).status_code == 400


async def test_logs_are_for_those_who_know_the_secret(directory):
    """Another user of the machine reaches the port, but not the path; wildcards are no names."""
    open_run(directory).close(START)
    transport = httpx2.ASGITransport(logs.application(directory, "secret"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://node") as client:
        for path in ("/logs/ns/pod/main", "/guess/logs/ns/pod/main", "/*/logs/ns/pod/main"):
            assert (await client.get(path)).status_code == 404
        assert (await client.get("/secret/logs/ns/pod/main")).status_code == 200
        assert (await client.get("/secret/logs/*/*/*")).status_code == 404
    with closing(logs.LogServer(directory)) as one, closing(logs.LogServer(directory)) as other:
        assert len(one.url.rpartition("/")[2]) > 40
        assert one.url.rpartition("/")[2] != other.url.rpartition("/")[2]


def test_only_two_runs_are_kept(directory):
    """Logs of a container that restarts for ever don't fill the disk."""
    for run in range(6):
        open_run(directory, run).close(START)
    assert sorted(path.name for path in (directory.pod("ns", "pod", "uid") / "main").iterdir()) == [
        "4.log",
        "5.log",
    ]


async def test_a_process_that_never_stops_writing(tmp_path):
    """It fills two files at most; a follower gets lines all the time, and the node has time for others."""
    directory = log_files.LogDirectory(tmp_path / "logs")
    runner = processes.ProcessRunner(tmp_path / "processes")
    writer = open_run(directory)
    process = await runner.start(["yes"], {"PATH": os.environ["PATH"]}, "", writer, "ns/pod/main")
    files = directory.pod("ns", "pod", "uid") / "main"
    sizes: list[int] = []

    async def follow() -> int:
        file = directory.newest("ns", "pod", "main")
        assert file is not None
        options = log_reading.LogOptions(follow=True)
        received = 0
        async for chunk in log_reading.read(file, options, lambda: directory.is_live(file)):
            received += len(chunk)
        return received

    following = asyncio.create_task(follow())
    began, began_cpu = time.monotonic(), time.process_time()
    async with asyncio.timeout(120):
        while not (files / "0.log.1").exists() or len(sizes) < 100:
            sizes.append(sum(path.stat().st_size for path in files.iterdir()))
            await asyncio.sleep(0.01)
    assert time.process_time() - began_cpu < 0.8 * (time.monotonic() - began)
    tail = await read(directory, tail_lines=1000)
    process.send(signal.SIGKILL)
    await process.wait()
    assert max(sizes) <= 2 * log_files.MAX_FILE_BYTES
    assert tail == "y\n" * 1000
    assert await following > 1000
    assert await read(directory, tail_lines=3) == "y\n" * 3
