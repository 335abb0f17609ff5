"""The file of API keys: a JSON list of hashes, which only its owner may read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headgate import private_files
from headgate.auth import keys
from headgate.auth.keys import Key

MAX_KEYS = 100_000
MAX_BYTES = 64 * 1024 * 1024


class KeyFileError(ValueError):
    """The file cannot be used; the message names it, and what to do."""


def read(path: Path) -> list[Key]:
    """The keys. Raises KeyFileError."""
    try:
        # Opening a pipe would otherwise wait for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            _check_mode(path, os.fstat(file.fileno()))
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KeyFileError(
            f"{path}: {error.strerror or error}; `headgate key create TENANT --file {path}` makes it"
        ) from error
    if len(content) > MAX_BYTES:
        raise KeyFileError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        found = msgspec.json.decode(content, type=list[Key]) if content.strip() else []
    except msgspec.MsgspecError as error:
        raise KeyFileError(f"{path}: {error}; mend it, or restore a copy") from error
    if len(found) > MAX_KEYS:
        raise KeyFileError(f"{path} has more than {MAX_KEYS} keys: revoke some")
    for index, key in enumerate(found):
        for field, problem in keys.problems(key):
            raise KeyFileError(f"{path}: [{index}].{field}: {problem}")
    return found


def _check_mode(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"{path} is not a regular file")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise KeyFileError(f"{path} is open to others (mode {mode:04o}): run `chmod 600 {path}`")


def change(path: Path, edit: Callable[[list[Key]], list[Key]]) -> None:
    """Replace the keys with what `edit` makes of them; the file is made if it is missing. Others who change
    it wait. Raises KeyFileError, also for what cannot be written, and whatever `edit` raises."""
    try:
        with _locked(path):
            present = read(path) if path.exists() else []
            private_files.write(path, msgspec.json.format(msgspec.json.encode(edit(present))) + b"\n")
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on the directory: the file itself is replaced."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)
