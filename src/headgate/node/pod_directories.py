"""Where the volumes of Pods are on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate.node import claim_links

log = logging.getLogger(__name__)

_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a temporary file


class PodDirectories:
    """`<root>/pods/<uid>/<volume>`, the same below a file system in memory, and `<root>/claims/<claim>`.

    Methods that touch files raise OSError; they block.
    """

    def __init__(self, root: Path, memory: Path = _MEMORY) -> None:
        self._pods = root.absolute() / "pods"
        self._root = root.absolute()
        mark = hashlib.sha256(str(root.absolute()).encode()).hexdigest()[:16]
        self._memory = memory / f"headgate-{mark}" if memory.is_dir() else None

    def volume(self, uid: str, name: str, *, in_memory: bool = False) -> Path:
        """The path of a volume's directory. On a system without /dev/shm, memory means the disk."""
        base = self._memory if in_memory and self._memory is not None else self._pods
        return base / uid / name

    def message_file(self, uid: str, container: str) -> Path:
        """An empty file for the termination message of a new run, which every user may write to."""
        path = self._pods / uid / f"message.{container}"  # no volume has a dot in its name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch()
        path.chmod(0o666)
        return path

    def claim(self, namespace: str, name: str) -> Path:
        """The directory of a claim, which outlives its Pods; created if it is missing."""
        return self._made(claim_links.path_of(self._root, namespace, name))

    def create(self, path: Path) -> Path:
        """A directory that every user of the Pod may write to; nobody else can enter the ones above."""
        for above in reversed(path.parents[:3]):
            if above.is_relative_to(self._pods) or (self._memory and above.is_relative_to(self._memory)):
                above.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._made(path)

    def uids(self) -> set[str]:
        """Pods that have a directory."""
        bases = [self._pods, *([self._memory] if self._memory else [])]
        return {path.name for base in bases if base.is_dir() for path in base.iterdir()}

    def remove(self, uid: str) -> None:
        """Remove all volumes of a Pod, but no claims. What cannot be removed is logged."""
        for base in (self._pods, self._memory):
            if base is not None and (base / uid).exists():
                _open_up(base / uid)
                shutil.rmtree(base / uid, onerror=_log_error)
        if self._memory is not None:
            with contextlib.suppress(OSError):  # only if it is empty
                self._memory.rmdir()

    def _made(self, path: Path) -> Path:
        if not path.is_dir():
            path.mkdir(parents=True)
            path.chmod(0o777)
        return path


def _open_up(tree: Path) -> None:
    """Containers may leave directories that not even their owner can change."""
    for parent, names, _ in os.walk(tree):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):  # it may lead out of the tree
                with contextlib.suppress(OSError):
                    os.chmod(path, stat.S_IRWXU)


def _log_error(_: Callable[..., Any], path: str, error: Any) -> None:
    log.warning("cannot remove %s of a deleted Pod: %s", path, error[1])
