"""What is in a cache: complete and partial downloads, whether their content is intact, and what can go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.downloads import digests, fetching, lease, manifest
from headgate.downloads.errors import DownloadError, Reason
from headgate.downloads.halting import Halt
from headgate.downloads.listing import OWN_DIRECTORY
from headgate.downloads.manifest import Manifest
from headgate.downloads.transfer import TRASH, WorkDirectory, is_work_directory

_FRESH_S = 3600.0
_PATIENCE_S = 30.0
"""With the lease of a process elsewhere: long enough to see whether it is still renewed."""


@dataclass(frozen=True)
class Entry:
    directory: Path
    manifest: Manifest | None
    """None while the download is not complete."""
    size: int
    """Bytes on the disk."""
    used: float
    """Unix time of the last `headgate download` that found it complete, or wrote to it."""
    holder: lease.Holder | None
    """The process that downloads it now, or was killed while it did."""


def entries(cache: Path) -> list[Entry]:
    """Downloads in this directory, sorted by name. Raises OSError."""
    complete = [
        Entry(path, found, found.size, _changed(path / manifest.PATH), None)
        for path in cache.iterdir()
        if path.name != OWN_DIRECTORY and (found := manifest.read(path)) is not None
    ]
    names = {entry.directory.name for entry in complete}
    return sorted((*complete, *_partial(cache, names)), key=lambda entry: entry.directory.name)


def _partial(cache: Path, complete: set[str]) -> Iterator[Entry]:
    """The state of `headgate up` may be in a directory of this name: its keys are no partial downloads."""
    try:
        works = list((cache / OWN_DIRECTORY).iterdir())
    except FileNotFoundError:
        return
    for work in works:
        if not work.is_dir() or not is_work_directory(work):
            continue
        # One that failed before the first byte leaves empty directories.
        found = [path for path in work.rglob("*") if path not in (work / "lock", work / "lease.json")]
        holder = lease.read(work / "lease.json")
        if (found or holder) and work.name not in complete:
            files = [path for path in found if path.is_file()]
            size = sum(path.stat().st_blocks * 512 for path in files)
            used = max(map(_changed, files or found or [work / "lease.json"]))
            yield Entry(cache / work.name, None, size, used, holder)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def problems(entry: Entry, check: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Read a complete download, and compare it with its manifest; one line for each file that differs."""
    if entry.manifest is None:
        return
    known = {file.path: file for file in entry.manifest.files}
    for path, file in known.items():
        try:
            place = entry.directory / path
            if place.is_symlink() or not place.is_file():
                yield f"{path}: missing"
            elif (size := place.stat().st_size) != file.size:
                yield f"{path}: has {size} bytes instead of {file.size}"
            elif (found := digests.sha256_of(place, check)) != file.sha256:
                yield f"{path}: has the SHA-256 hash {found} instead of {file.sha256}"
        except OSError as error:
            yield f"{path}: {error.strerror}"
    for folder, folders, names in os.walk(entry.directory):
        folders[:] = [name for name in folders if name != OWN_DIRECTORY]
        for name in names:
            path = Path(folder, name).relative_to(entry.directory).as_posix()
            if path not in known:
                yield f"{path}: not part of the download"


def to_prune(
    found: Sequence[Entry],
    now: float,
    *,
    older_than_s: float | None,
    max_bytes: int | None,
    keep: Sequence[str],
) -> list[Entry]:
    """The entries to remove, the least recently used first.

    Those that were not used for `older_than_s`, and then as many as needed so that `max_bytes` remain.
    Sources in `keep` stay. So does a partial download that was written to within the last hour, unless it is
    old enough and nobody has its lease.
    """
    candidates = sorted(found, key=lambda entry: entry.used)
    candidates = [
        entry for entry in candidates if entry.manifest is None or entry.manifest.source not in keep
    ]
    old = [
        entry
        for entry in candidates
        if older_than_s is not None
        and now - entry.used > older_than_s
        and not (entry.holder and _is_fresh(entry, now))
    ]
    total = sum(entry.size for entry in found) - sum(entry.size for entry in old)
    for entry in candidates:
        if max_bytes is None or total <= max_bytes:
            break
        if entry not in old and not _is_fresh(entry, now):
            old.append(entry)
            total -= entry.size
    return old


def _is_fresh(entry: Entry, now: float) -> bool:
    """Whether it is a partial download that may go on."""
    return entry.manifest is None and now - entry.used < _FRESH_S


def remove(entry: Entry) -> bool:
    """Remove a download, unless a process holds its lease; return whether it is gone. Raises OSError.

    It is renamed first, so that no process finds half of it.
    """
    work = fetching.work_directory(entry.directory)
    halt, until = Halt(), time.monotonic() + _PATIENCE_S

    def give_up(_: lease.Holder | None) -> None:
        if time.monotonic() > until:
            halt.set(DownloadError(Reason.TARGET_IN_USE, f"{entry.directory} is being downloaded"))

    try:
        with lease.held(work, halt, give_up):
            if entry.manifest is not None:
                entry.directory.rename(work / f"{TRASH}{time.time_ns()}")
            WorkDirectory(work).remove()
    except DownloadError:
        return False
    return True
