"""The programs of a control plane end with the process that started them, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running import PROGRAMS, running

TOOL = Path(__file__).parents[2] / "tools" / "control_plane"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts a control plane of its own in the directory of the test."""
    started: list[subprocess.Popen[str]] = []

    def run() -> subprocess.Popen[str]:
        command = [sys.executable, TOOL, "up", tmp_path]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == f"{tmp_path / 'kubeconfig'}\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_down_returns_when_all_have_ended(tmp_path, up):
    process = up()
    assert sorted(running(tmp_path)) == PROGRAMS
    another = subprocess.run([sys.executable, TOOL, "up", tmp_path], capture_output=True, text=True)
    assert (another.returncode, another.stderr) == (2, f"A control plane runs in {tmp_path} already\n")
    subprocess.run([sys.executable, TOOL, "down", tmp_path], check=True)
    assert running(tmp_path) == {}
    assert process.wait(30) == 0


def test_killing_the_process_that_started_them_ends_them(tmp_path, up, eventually):
    process = up()
    process.send_signal(signal.SIGKILL)
    eventually(lambda: not running(tmp_path))


def test_a_program_that_ends_ends_the_others(tmp_path, up):
    """The message names it."""
    process = up()
    os.kill(running(tmp_path)["kube-scheduler"].pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "kube-scheduler ended with status -9" in errors
    assert running(tmp_path) == {}
