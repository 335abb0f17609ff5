"""Container logs: what is kept of them, and how they are asked for."""

import asyncio
import contextlib
import os
import signal
import time
import tracemalloc
from contextlib import aclosing, closing, suppress
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kubeschema import timestamps
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


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    rotate_at=st.integers(200, 3000),
    tail=st.none() | st.integers(0, 70),
    since=st.none() | st.integers(-1, 61),
)
def test_pieces_add_up_to_what_was_asked_for(tmp_path_factory, lengths, rotate_at, tail, since):
    """However short the pieces are, and wherever the log was rotated."""
    file = log_files.LogFile(tmp_path_factory.mktemp("logs") / "0.log")
    writer = log_files.LogWriter(file, max_file_bytes=rotate_at)
    for number, length in enumerate(lengths):
        writer.write(b"x" * length + b"\n", START + number)
    writer.close(START)
    kept = b"".join(path.read_bytes() for path in (file.rotated, file.current) if path.exists())
    lines = kept.decode().splitlines(keepends=True)
    from_time = None if since is None else timestamps.nanoseconds(START + since)
    wanted = [line for line in lines if from_time is None or line >= from_time]
    wanted = wanted if tail is None else wanted[len(wanted) - min(tail, len(wanted)) :]
    options = log_reading.LogOptions(timestamps=True, tail_lines=tail, since=from_time)

    async def read_all() -> bytes:
        return b"".join([piece async for piece in log_reading.read(file, options, lambda: False)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reading, "_PIECE_BYTES", 80)
        assert asyncio.run(read_all()).decode() == "".join(wanted)


@pytest.mark.parametrize("tail", [None, 10**9])
async def test_a_reader_holds_one_piece(tmp_path, tail):
    """Of a log of 4 MB, which a client that does not read on would keep in memory otherwise."""
    file = log_files.LogFile(tmp_path / "0.log")
    writer = log_files.LogWriter(file, max_file_bytes=2 << 20)
    for _ in range(128):
        writer.write(b"\n" * 1000, START)
    writer.close(START)
    options = log_reading.LogOptions(tail_lines=tail, timestamps=True)
    read = longest = 0
    tracemalloc.start()
    async for piece in log_reading.read(file, options, lambda: False):
        read, longest = read + len(piece), max(longest, len(piece))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read > 2 << 20
    assert longest <= 64 << 10
    assert peak < 1 << 20


async def test_readers_take_turns():
    """Of many who read the logs of a node, one at a time has a piece read."""
    turns, reading, most = log_reading.Turns(), 0, 0

    def piece() -> bytes:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        time.sleep(0.001)
        reading -= 1
        return b"piece"

    assert set(await asyncio.gather(*(turns.read(piece) for _ in range(20)))) == {b"piece"}
    assert most == 1


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
    program = processes.Program(["yes"], {"PATH": os.environ["PATH"]})
    process = await runner.start(program, writer, "ns/pod/main")
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


async def test_as_many_read_logs_as_the_api_server_lets(directory):
    """A user whose streams fill the API server's share leaves others theirs at the node as well."""
    writer = open_run(directory)
    writer.write(b"line\n", START)
    server = logs.LogServer(directory)
    serving = asyncio.create_task(server.run())
    client = httpx2.AsyncClient(base_url=server.url, timeout=30, limits=httpx2.Limits())
    try:
        async with client, contextlib.AsyncExitStack() as following:
            for _ in range(100):
                request = client.stream("GET", "/logs/ns/pod/main?follow=true")
                response = await following.enter_async_context(request)
                assert response.status_code == 200
            assert (await client.get("/logs/ns/pod/main")).text == "line\n"
    finally:
        writer.close(START)
        server.stop()
        await serving
        server.close()
