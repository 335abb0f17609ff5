"""A state directory that cannot be made, or whose disk is full, is told in one line with what to do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.apiserver import Config, NoSpaceError
from headgate.apiserver.parts import Parts
from headgate.cli import supervisor

HEADGATE = [sys.executable, "-m", "headgate"]


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_directory_that_cannot_be_made_is_named(command: str) -> None:
    """The flag and the variable that choose another one are in the message."""
    done = subprocess.run([*HEADGATE, command, "--state", "/proc/nope"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: cannot make the state directory /proc/nope: No such file or directory; "
        "choose another with --state or HEADGATE_STATE"
    ]


def test_a_server_without_space_for_its_first_objects_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty state needs namespaces, which a full disk does not take."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSpaceError, match=f"no space left in {tmp_path}; free some, or choose another"):
        Parts(Config(tmp_path))


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("filled_kb", [2048, 500, 300, 0])
@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_full_disk_ends_the_start_with_one_line(
    command: str, filled_kb: int, tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    """Wherever the start runs out of space, nothing is started again and there is no traceback."""
    if not can_mount():
        pytest.skip("needs user namespaces for a disk of its own")
    flags = ["--state", str(tmp_path)]
    if command == "up":
        names = ("--apiserver-port", "--port", "--metrics-port", "--admin-port")
        flags += [word for name in names for word in (name, str(unused_tcp_port_factory()))]
    else:
        flags += ["--port", "0"]
    script = f'mount -t tmpfs -o size=2m none "$0" && head -c {filled_kb}K /dev/zero > "$0/filler"; exec "$@"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, str(tmp_path), *HEADGATE, command, *flags],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    told = f"Error: {supervisor.no_space(tmp_path)}"
    assert [line for line in done.stderr.splitlines() if not line.startswith("head:")][-1] == told
    assert "Traceback" not in done.stdout + done.stderr
    assert "started again" not in done.stdout + done.stderr
