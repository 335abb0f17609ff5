"""Which programs of a control plane run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


class Program(NamedTuple):
    pid: int
    command: list[str]


def running(state: Path) -> dict[str, Program]:
    """Those that run with files of a state directory, by name."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text(errors="replace").rstrip("\0").split("\0")
            if Path(words[0]).name in PROGRAMS and any(str(state) in word for word in words[1:]):
                found[Path(words[0]).name] = Program(int(path.parent.name), words)
    return found
