"""Directories of files that change all at once, as the kubelet writes volumes of ConfigMaps and Secrets.

A version of the files is a hidden directory. The link `..data` points to the current one, and the names that
programs open are links through it, so replacing `..data` replaces all files in one step.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from headgate.node.volume_files import File

_DATA = "..data"
_VERSION = "..version-"
_DIRECTORY_MODE = 0o755


def write(directory: Path, files: Iterable[File]) -> bool:
    """Make `directory` consist of the files; returns whether anything changed. Raises OSError."""
    wanted = {file.path: file for file in files}
    data = directory / _DATA
    names = {Path(path).parts[0] for path in wanted}
    if data.is_dir() and _present(data) == {path: (file.content, file.mode) for path, file in wanted.items()}:
        _link_names(directory, names)  # a node may have been killed before it did
        return False
    directory.mkdir(parents=True, exist_ok=True)
    version = Path(tempfile.mkdtemp(prefix=_VERSION, dir=directory))
    version.chmod(_DIRECTORY_MODE)
    try:
        for file in wanted.values():
            _write(version / file.path, file)
    except OSError:
        shutil.rmtree(version, ignore_errors=True)  # it may have copies of Secrets
        raise
    new = directory / f"{_DATA}.new"
    new.unlink(missing_ok=True)
    new.symlink_to(version.name)
    new.replace(data)
    _link_names(directory, names)
    _remove_versions(directory, except_for=version.name)
    return True


def _write(path: Path, file: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)
    path.chmod(file.mode)  # not affected by the umask


def _present(data: Path) -> dict[str, tuple[bytes, int]]:
    found = {}
    for path in _files(data.resolve()):
        # A mode without read permission hides the content from us too, unless we are root.
        with contextlib.suppress(PermissionError):
            mode = path.stat().st_mode & 0o7777
            found[str(path.relative_to(data.resolve()))] = (path.read_bytes(), mode)
    return found


def _files(directory: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(directory):
        yield from (Path(parent, name) for name in names)


def _link_names(directory: Path, names: set[str]) -> None:
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(Path(_DATA, name))
    for path in directory.iterdir():
        if path.is_symlink() and path.name not in {*names, _DATA}:
            path.unlink()


def _remove_versions(directory: Path, *, except_for: str) -> None:
    for path in directory.glob(f"{_VERSION}*"):
        if path.name != except_for:
            shutil.rmtree(path, ignore_errors=True)
