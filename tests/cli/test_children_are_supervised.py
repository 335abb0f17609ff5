"""The supervisor starts what falls over, ends what it is told to, and leaves nothing behind."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from headgate.cli import supervisor
from headgate.cli.supervisor import Child, StateInUse, lock_state


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_a_child_that_falls_over_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unexpected end is told with its exit code, and the process comes back."""
    monkeypatch.setattr(supervisor, "FIRST_RESTART_S", 0.01)
    codes: list[int] = []
    enough = asyncio.Event()

    def told(child: Child, code: int) -> None:
        codes.append(code)
        if len(codes) == 3:
            enough.set()

    child = Child("falls", python("print('fell'); raise SystemExit(3)"), tmp_path / "falls.log")
    task = asyncio.create_task(child.run(told))
    async with asyncio.timeout(60):
        await enough.wait()
    await child.stop(1)
    await task
    assert codes[:3] == [3, 3, 3]
    assert child.last_lines(2) == ["fell", "fell"]


async def test_a_child_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    """stop() says that it had to."""
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = Child(
        "stubborn", python(f"{ignore}; print('on', flush=True); time.sleep(60)"), tmp_path / "stubborn.log"
    )
    task = asyncio.create_task(child.run(lambda *_: None))
    async with asyncio.timeout(60):
        while child.last_lines(1) != ["on"]:
            await asyncio.sleep(0.01)
    assert await child.stop(0.1) is False
    await task


async def test_a_long_log_is_set_aside_before_the_next_start(tmp_path: Path) -> None:
    """Logs of a machine that is started every day don't fill its disk."""
    log = tmp_path / "long.log"
    with log.open("wb") as file:
        file.truncate(supervisor.MAX_LOG_BYTES)
        file.seek(0, os.SEEK_END)
        file.write(b"\nold\n")
    child = Child("long", python("print('new')"), log)
    ended = asyncio.Event()
    task = asyncio.create_task(child.run(lambda *_: ended.set()))
    async with asyncio.timeout(60):
        await ended.wait()
    await child.stop(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert child.last_lines(5) == ["new"]
    assert (tmp_path / "long.log.1").read_bytes()[-5:] == b"\nold\n"


async def test_a_log_is_bounded_while_its_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that never stops writing fills two files and no more, and its last words can be read."""
    monkeypatch.setattr(supervisor, "MAX_LOG_BYTES", 100_000)
    monkeypatch.setattr(supervisor, "LOG_CHECK_S", 0.01)
    log, aside = tmp_path / "loud.log", tmp_path / "loud.log.1"
    # So slowly that it does not fill a file again while this process waits for its turn.
    writes = "for i in itertools.count(): print(i, flush=True); i % 100 or time.sleep(4e-3)"
    child = Child("loud", python(f"import itertools, time\n{writes}"), log)
    task = asyncio.create_task(child.run(lambda *_: None))
    async with asyncio.timeout(60):
        while last_number(aside) < 50_000:
            await asyncio.sleep(0.01)
    await child.stop(10)
    await task
    assert len(aside.read_bytes()) <= 200_000
    assert sorted(os.listdir(tmp_path)) == ["loud.log", "loud.log.1"]
    kept = [int(line) for line in aside.read_text().split() + log.read_text().split()]
    assert kept == sorted(kept)
    assert kept[-1] >= 50_000


def last_number(log: Path) -> int:
    """In a file of one number a line; 0 where there is none."""
    if not log.exists():
        return 0
    return int((log.read_bytes().split(b"\n")[:-1] or [b"0"])[-1])


async def test_a_child_stopped_while_it_starts_ends(tmp_path: Path) -> None:
    """A stop that finds no process yet is not forgotten by the process that comes then."""
    child = Child("late", python("import time; time.sleep(60)"), tmp_path / "late.log")
    task = asyncio.create_task(child.run(lambda *_: None))
    await asyncio.sleep(0)  # the process is being made
    assert child.process is None
    assert await child.stop(1)
    async with asyncio.timeout(60):
        await task


def test_a_state_directory_is_its_owners_alone(tmp_path: Path) -> None:
    """Logs and objects in it are not for other users of the machine."""
    os.close(lock_state(tmp_path / "state"))
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_state_directory_has_one_owner(tmp_path: Path) -> None:
    """The second one is told what to do; after the first is gone, the directory is free."""
    lock = lock_state(tmp_path)
    with pytest.raises(StateInUse, match="--state"):
        lock_state(tmp_path)
    os.close(lock)
    os.close(lock_state(tmp_path))
