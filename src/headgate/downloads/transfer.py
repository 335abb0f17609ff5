"""Fetches the files of a listing into a work directory, in parts, with several connections."""

from __future__ import annotations

import errno
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headgate.downloads import retries
from headgate.downloads.errors import ChangedError, DownloadError, Reason, TemporaryError
from headgate.downloads.halting import Halt
from headgate.downloads.listing import Listing, RemoteFile
from headgate.downloads.manifest import StoredFile
from headgate.downloads.partial import PartialFile, name_of
from headgate.downloads.progress import Progress
from headgate.downloads.remote import Remote

_PROGRESS_BYTES = 64 << 10
"""An attempt that brings less than this, and less than a quarter of what is missing, counts as one without
progress, so that no server can keep us for ever."""
_TICK_S = 0.2
_END_S = 10.0
"""How long to wait for threads that are to end; one that the network blocks for longer writes nothing."""


_LOCKS = ("lock", "lease.json")
_CONTENTS = ("files", "parts", "complete.jsonl", *_LOCKS)
TRASH = "trash-"
"""Former downloads that are being removed have this prefix."""


def is_work_directory(path: Path) -> bool:
    """Whether a directory has what belongs to a download, and nothing else. Raises OSError."""
    found = [each.name for each in path.iterdir()]
    return "lock" in found and all(map(_is_own, found))


def _is_own(name: str) -> bool:
    return name in _CONTENTS or name.startswith(TRASH) or (name.startswith(".") and name.endswith(".new"))


class WorkDirectory:
    """Complete files in `files`, partial ones in `parts`, and a journal of the complete ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.files, self.parts = path / "files", path / "parts"
        self._journal = path / "complete.jsonl"
        self._lock = threading.Lock()
        for each in (self.files, self.parts):
            each.mkdir(parents=True, exist_ok=True)

    def complete(self, listing: Listing) -> dict[str, str]:
        """SHA-256 hashes of the files of the listing that are already complete, by path."""
        try:
            lines = self._journal.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        known: dict[tuple[str, str], str] = {}
        for line in lines:
            try:
                path, name, sha256 = msgspec.json.decode(line, type=tuple[str, str, str])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue  # the last line of a killed process
            known[path, name] = sha256
        found = {
            file.path: known[key] for file in listing.files if (key := (file.path, name_of(file))) in known
        }
        sizes = {file.path: file.size for file in listing.files}
        return {path: sha256 for path, sha256 in found.items() if self._size(path) == sizes[path]}

    def _size(self, path: str) -> int | None:
        file = self.files / path
        return file.stat().st_size if file.is_file() else None

    def record(self, file: RemoteFile, sha256: str) -> None:
        with self._lock, self._journal.open("ab") as journal:
            journal.write(msgspec.json.encode((file.path, name_of(file), sha256)) + b"\n")

    def remove(self) -> None:
        """Remove everything but the lock of the directory and the lease, and what is not of a download: the
        state of `headgate up` is in a directory of the same name."""
        for path in self._path.iterdir():
            if path.name in _LOCKS or not _is_own(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove_others(self, listing: Listing) -> None:
        """Remove what does not belong to this listing: partial files of an earlier revision."""
        wanted = {self.files / file.path for file in listing.files}
        names = {name_of(file) for file in listing.files}
        for path in sorted(self.files.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path not in wanted:
                path.unlink()
        for path in self.parts.iterdir():
            if path.name.removesuffix(".parts") not in names:
                path.unlink()


class Transfer:
    """One run: every thread takes the next missing part until there is none, or one of them fails.

    `allowed` is called before each write, and raises DownloadError if this process may not write any more.
    """

    def __init__(
        self,
        remote: Remote,
        listing: Listing,
        work: WorkDirectory,
        progress: Progress,
        halt: Halt,
        allowed: Callable[[], None],
        backoff: retries.Backoff,
    ) -> None:
        self._remote, self._work = remote, work
        self._progress, self._halt, self._backoff = progress, Halt(halt), backoff
        self._allowed = allowed
        self._stored = work.complete(listing)
        self._partial = [
            PartialFile(work.parts, file) for file in listing.files if file.path not in self._stored
        ]
        self._next = self._parts()
        self._lock = threading.Lock()
        self._left = {partial.file.path: len(partial.missing()) for partial in self._partial}
        self._discarded: set[str] = set()
        self._listing = listing
        present = sum(partial.present_bytes for partial in self._partial)
        complete = sum(file.size for file in listing.files if file.path in self._stored)
        self.needed_bytes = listing.size - complete - sum(each.allocated_bytes for each in self._partial)
        """Of the disk."""
        progress.begin(present + complete, listing.size, len(self._stored), len(listing.files))

    def _parts(self) -> Iterator[tuple[PartialFile, int | None]]:
        for partial in self._partial:
            missing = partial.missing()
            if not missing:
                yield partial, None
            for part in missing:
                yield partial, part

    def run(self, connections: int, tick: Callable[[], None]) -> list[StoredFile]:
        """Return the files once all are complete; `tick` is called several times per second until then."""
        threads = [threading.Thread(target=self._work_on, daemon=True) for _ in range(connections)]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                tick()
                self._halt.wait(_TICK_S)
            self._halt.check()
        finally:
            self._halt.set()
            self._end(threads)
        return [StoredFile(file.path, file.size, self._stored[file.path]) for file in self._listing.files]

    def _end(self, threads: list[threading.Thread]) -> None:
        until = time.monotonic() + _END_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            return  # a closed descriptor could be another file's by the time it is used
        for partial in self._partial:
            partial.close()

    def _check(self) -> None:
        self._halt.check()
        self._allowed()

    def _work_on(self) -> None:
        try:
            while True:
                self._halt.check()
                with self._lock:
                    found = next(self._next, None)
                if found is None:
                    return
                self._fetch(*found)
        except OSError as error:
            self._halt.set(disk_error(error))
        except Exception as error:  # whatever it is, the download must not wait for this thread
            self._halt.set(error)

    def _fetch(self, partial: PartialFile, part: int | None) -> None:
        if part is not None:
            self._fetch_part(partial, part)
            with self._lock:
                self._left[partial.file.path] -= 1
                if self._left[partial.file.path]:
                    return
        self._finish(partial)

    def _fetch_part(self, partial: PartialFile, part: int) -> None:
        start, end = partial.range(part)
        failures = 0
        while start < end:
            before = start
            try:
                with self._remote.read(partial.file, start, end) as pieces:
                    for piece in pieces:
                        self._check()
                        self._write(partial, piece, start)
                        start += len(piece)
                        self._progress.received(len(piece))
                if start < end:
                    raise TemporaryError("the connection ended early")
            except ChangedError:
                raise
            except TemporaryError as error:
                is_progress = start - before >= min(_PROGRESS_BYTES, (end - before) / 4)
                failures = 1 if is_progress else failures + 1
                if failures >= self._backoff.attempts:
                    raise retries.gave_up(f"reading {partial.file.path}", failures, error) from error
                self._progress.retried(str(error))
                self._halt.wait(self._backoff.delay_s(failures, error.after_s))
        partial.complete(part, self._halt.check)

    def _write(self, partial: PartialFile, piece: bytes, offset: int) -> None:
        try:
            partial.write(piece, offset)
        except OSError as error:  # not to be taken for one of the connection
            raise disk_error(error) from error

    def _finish(self, partial: PartialFile) -> None:
        file = partial.file
        digests = partial.finish(self._halt.check)
        while problem := digests.problem():
            if digests.length == file.size and not self._is_hash_known(file):
                break
            if file.path in self._discarded:
                raise DownloadError(
                    Reason.CORRUPT,
                    f"{file.path} {problem}, twice; the source or a proxy on the way is broken",
                )
            self._discarded.add(file.path)
            self._progress.lost(file.size)
            partial.discard()
            for part in range(partial.parts):
                self._fetch_part(partial, part)
            digests = partial.finish(self._halt.check)
        self._check()
        partial.publish(self._work.files / file.path)
        self._work.record(file, digests.sha256)
        with self._lock:
            self._stored[file.path] = digests.sha256
        self._progress.finished_file()

    def _is_hash_known(self, file: RemoteFile) -> bool:
        return retries.repeated(
            f"looking up {file.path}",
            lambda: self._remote.is_hash_known(file),
            self._backoff,
            self._halt,
            self._progress.retried,
        )


def disk_error(error: OSError) -> DownloadError:
    """The error of a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DownloadError(
            Reason.NO_SPACE,
            f"no space left for the download ({error.strerror}): free space, or use a larger volume; "
            "the download continues where it stopped",
        )
    where = f"{error.filename}: " if error.filename else ""
    return DownloadError(
        Reason.INVALID_SOURCE, f"{where}{error.strerror or error}: check the volume and its permissions"
    )
