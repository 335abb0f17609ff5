"""hostPath volumes, with their types."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from headgate.node.pod_spec import HostPath
from headgate.node.volume_files import VolumeError

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def provide(source: HostPath) -> Path:
    """The path, created if its type allows that. Raises VolumeError and OSError."""
    path = Path(source.path)
    if not path.is_absolute():
        raise VolumeError(f"hostPath.path {source.path!r} is not absolute")
    if source.type not in ("", *_CHECKS):
        raise VolumeError(f"hostPath.type {source.type!r} is none of {', '.join(_CHECKS)}")
    if not path.exists():
        _create(path, source.type)
    if source.type:
        is_right, what = _CHECKS[source.type]
        if not is_right(path.stat().st_mode):
            raise VolumeError(f"hostPath {source.path} is not {what}, as hostPath.type {source.type} demands")
    return path


def _create(path: Path, kind: str) -> None:
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    else:
        hint = "" if kind else "; hostPath.type DirectoryOrCreate creates it"
        raise VolumeError(f"hostPath {path} does not exist on this machine{hint}")
