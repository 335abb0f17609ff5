"""The record of a complete download: its source, and the size and hash of each file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from headgate.downloads import files
from headgate.downloads.listing import OWN_DIRECTORY

PATH = f"{OWN_DIRECTORY}/manifest.json"
_MAX_BYTES = 64 << 20


class StoredFile(msgspec.Struct, frozen=True):
    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    source: str
    files: list[StoredFile]
    endpoint: str = ""
    """Of a hub or S3: the same URI on two servers means different things."""
    revision: str = ""
    include: list[str] = []
    exclude: list[str] = []
    format: int = 1

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def read(directory: Path) -> Manifest | None:
    """The manifest of a complete download; None if there is none that can be read."""
    try:
        with open(directory / PATH, "rb", opener=files.regular) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def missing(directory: Path, manifest: Manifest) -> list[str]:
    """Files that are not there, or have another size; their content is not read."""
    return [file.path for file in manifest.files if _size(directory / file.path) != file.size]


def _size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:
    """Replace a file at once, so that readers see the old or the new one. Raises OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def sync_directory(path: Path) -> None:
    """Make renames in the directory survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
