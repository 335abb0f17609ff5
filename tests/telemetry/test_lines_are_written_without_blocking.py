"""The log writes from a thread of its own: a slow reader costs lines, never time."""

import os
import select
import time

import pytest

from headgate.telemetry.line_log import BATCHES, LineLog


@pytest.fixture
def pipe():
    """The two ends of a pipe: read, write."""
    reading, writing = os.pipe()
    ends = [reading, writing]
    yield reading, writing
    for end in ends:
        os.close(end)


def test_lines_arrive_in_order(tmp_path):
    """Closing writes what was added, after what was flushed before."""
    fd = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)
    log = LineLog(fd)
    for place in range(1000):
        log.add(f"line {place} \u00e9\n")
        if place % 7 == 0:
            log.flush()
    log.close()
    os.close(fd)
    assert (tmp_path / "log").read_text().splitlines() == [f"line {place} \u00e9" for place in range(1000)]
    assert log.statistics() == {"lines_written": 1000, "lines_dropped": 0, "batches_waiting": 0}


def test_slow_reader_costs_lines_not_time(pipe):
    """When nobody reads, a bounded number of batches waits, and the rest is dropped and counted."""
    reading, writing = pipe
    log = LineLog(writing)
    line = "x" * 4095 + "\n"
    for _ in range(BATCHES + 100):  # waiting for the reader would never end
        log.add(line)
        log.add(line)
        log.flush()
    counts = log.statistics()
    assert counts["lines_dropped"] > 0
    kept = 2 * (BATCHES + 100) - counts["lines_dropped"]
    received = 0
    while received < kept * len(line):
        received += len(os.read(reading, 1 << 20))
    log.close()
    assert log.statistics() == counts | {"lines_written": kept, "batches_waiting": 0}


def test_reader_that_is_gone_does_not_stop_anything():
    """Lines for a closed pipe are dropped and counted; closing does not hang."""
    broken_read, broken_write = os.pipe()
    os.close(broken_read)
    log = LineLog(broken_write)
    for _ in range(BATCHES + 10):
        log.add("line\n")
        log.flush()
        time.sleep(0.0001)
    assert log.statistics()["batches_waiting"] <= BATCHES
    began = time.monotonic()
    log.close(0.2)
    assert time.monotonic() - began < 30
    os.close(broken_write)
    assert log.statistics()["lines_dropped"] > 0


def test_a_disk_that_was_full_for_a_while_costs_the_lines_of_that_time(tmp_path):
    """They are counted, and later ones are written."""
    fd = os.open("/dev/full", os.O_WRONLY)
    log = LineLog(fd)
    log.add("lost\n")
    log.flush()
    while log.statistics()["lines_dropped"] == 0:
        time.sleep(0.001)
    with_room = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)
    os.dup2(with_room, fd)
    log.add("kept\n")
    log.close()
    os.close(with_room)
    os.close(fd)
    assert (tmp_path / "log").read_text() == "kept\n"
    assert log.statistics() == {"lines_written": 1, "lines_dropped": 1, "batches_waiting": 0}


def test_non_blocking_output_is_waited_for(pipe):
    """Output that somebody made non-blocking is written in full, as fast as it is read."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    log = LineLog(writing)
    text = "".join(f"line {place}\n" for place in range(40_000))
    log.add(text)
    log.flush()
    received = b""
    while len(received) < len(text):
        time.sleep(0.0001)
        received += os.read(reading, 65536)
    log.close()
    assert received.decode() == text


def test_lines_of_several_processes_do_not_mix_in_a_pipe():
    """What goes to a pipe in one piece is whole lines, and not more than the system writes in one go."""
    reading, writing = os.pipe2(os.O_DIRECT)  # each read gives what one write wrote
    log = LineLog(writing)
    lines = [f"{place} {'x' * (place * 37 % 900)}\n" for place in range(100)]
    lines.insert(50, "y" * (select.PIPE_BUF + 10) + "\n")
    for line in lines:
        log.add(line)
    log.close()
    os.close(writing)
    pieces = []
    while piece := os.read(reading, 1 << 16):
        pieces.append(piece)
    os.close(reading)
    assert b"".join(pieces).decode() == "".join(lines)
    long = [piece for piece in pieces if len(piece) > select.PIPE_BUF or not piece.endswith(b"\n")]
    assert b"".join(long).replace(b"y", b"").strip() == b"", "but for the line that is longer"
    assert len(pieces) < 30
