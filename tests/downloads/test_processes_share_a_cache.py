"""Many processes with one directory download once; the death of any of them costs little."""

import json
import os
import random
import signal
import threading
import time

import pytest

from headgate.downloads.partial import PART_BYTES


def wait_until(condition, limit_s=120.0):
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def assert_complete(target, repository):
    for path, content in repository.files.items():
        assert (target / path).read_bytes() == content


def test_processes_that_start_together_download_once(run, hub, repository, tmp_path):
    """The others wait, say for whom, and find everything there."""
    hub.pace_s = 0.005
    target = tmp_path / "model"
    started = [run("download", "--source", "hf://org/name", "--output-dir", target) for _ in range(4)]
    told = [process.communicate(timeout=200) for process in started]

    assert [process.returncode for process in started] == [0] * 4, told
    assert_complete(target, repository)
    assert len([path for path, _ in hub.requests if path.startswith("/api/")]) == 1
    assert len(hub.reads("model-00001.safetensors")) == 2
    assert sum("Waiting for " in out for out, _ in told) == 3


@pytest.mark.parametrize("seed", range(4))
def test_processes_that_are_killed_are_succeeded(run, hub, repository, tmp_path, seed):
    """Whoever holds the lock is killed at random moments; the rest finish, and keep what had arrived."""
    rng = random.Random(seed)
    hub.pace_s = 0.004
    target = tmp_path / "model"
    arguments = ("download", "--source", "hf://org/name", "--output-dir", target, "--connections", "2")
    lease = tmp_path / ".headgate" / "model" / "lease.json"
    started = [run(*arguments) for _ in range(3)]
    kills = 0
    while kills < 4 and not target.exists():
        time.sleep(rng.uniform(0.05, 1.5))
        try:
            holder = json.loads(lease.read_text())["pid"]
        except (FileNotFoundError, json.JSONDecodeError):
            continue
        victim = next(
            (process for process in started if process.pid == holder and process.poll() is None), None
        )
        if victim is not None:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            kills += 1
            started.append(run(*arguments))
    for process in started:
        process.communicate(timeout=200)

    assert sorted({process.returncode for process in started}) in ([-9, 0], [0])
    assert sum(process.returncode == 0 for process in started) == 3
    assert_complete(target, repository)
    size = sum(map(len, repository.files.values()))
    assert hub.sent_bytes <= 2 * size + kills * 2 * (PART_BYTES + (1 << 20))
    assert [path.name for path in (tmp_path / ".headgate" / "model").iterdir()] == ["lock"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_keeps_what_has_arrived(run, hub, repository, tmp_path, number):
    """The process ends soon, with a line and its own exit code; the next one continues."""
    hub.pace_s = 0.01
    target = tmp_path / "model"
    arguments = ("download", "--source", "hf://org/name", "--output-dir", target, "--connections", "1")
    process = run(*arguments)
    wait_until(lambda: hub.sent_bytes > PART_BYTES + (2 << 20))
    process.send_signal(number)
    _, problems = process.communicate(timeout=60)

    assert process.returncode == 130
    assert problems == "Error: interrupted; what has arrived is kept\n"
    assert not target.exists()
    assert not (tmp_path / ".headgate" / "model" / "lease.json").exists()
    hub.requests.clear()
    hub.pace_s = 0
    assert run(*arguments).wait(120) == 0
    assert_complete(target, repository)
    assert hub.reads("config.json") == []
    assert "bytes=0-16777215" not in hub.reads("model-00001.safetensors")


def test_a_signal_does_not_wait_for_a_silent_hub(run, hub, repository, tmp_path):
    """The listing takes as long as the hub likes, but the process ends."""
    asked, end = threading.Event(), threading.Event()

    def answer(handler):
        asked.set()
        return end.wait(200)

    hub.answer = answer
    process = run("download", "--source", "hf://org/name", "--output-dir", tmp_path / "model")
    assert asked.wait(60)
    process.send_signal(signal.SIGTERM)
    try:
        _, problems = process.communicate(timeout=20)
    finally:
        end.set()

    assert process.returncode == 130
    assert problems == "Error: interrupted; what has arrived is kept\n"


def test_a_process_that_was_suspended_gives_up(run, hub, repository, tmp_path):
    """Its lease is another's by then: it writes nothing any more, and says why."""
    hub.pace_s = 0.05
    target = tmp_path / "model"
    process = run("download", "--source", "hf://org/name", "--output-dir", target)
    lease = tmp_path / ".headgate" / "model" / "lease.json"
    wait_until(lambda: hub.sent_bytes > 1 << 20)
    process.send_signal(signal.SIGSTOP)
    lease.unlink()
    time.sleep(1)
    lease.write_text(
        json.dumps({"token": "x", "host": "elsewhere", "pid": 1, "kernel": "y", "doing": "much"})
    )
    process.send_signal(signal.SIGCONT)
    _, problems = process.communicate(timeout=120)

    assert process.returncode == 32, problems
    assert "was taken over by elsewhere (process 1), much; start the download again" in problems
    assert json.loads(lease.read_text())["token"] == "x"
    assert not os.path.exists(target)
