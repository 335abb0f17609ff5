"""A file that arrives in parts: what has arrived survives the process."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from headgate.downloads.digests import Digests
from headgate.downloads.listing import RemoteFile

PART_BYTES = 16 << 20


class PartialFile:
    """The content so far, and beside it a journal of the parts that are complete.

    A part is in the journal after its content is on the disk. Its directory belongs to one process at a time.
    """

    def __init__(self, directory: Path, file: RemoteFile) -> None:
        self.file = file
        name = name_of(file)
        self._path, self._journal = directory / name, directory / f"{name}.parts"
        self._lock = threading.Lock()
        self._opening, self._hashing = threading.Lock(), threading.Lock()
        self._digests = Digests(file)
        self._opened: int | None = None
        self._complete = self._read_journal()

    def _read_journal(self) -> set[int]:
        try:
            words = self._journal.read_text().split("\n")[:-1]
            size = self._path.stat().st_size
        except (FileNotFoundError, UnicodeDecodeError):
            return set()
        known = {int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 10}
        return {part for part in known if part < self.parts and self.range(part)[1] <= size}

    @property
    def _descriptor(self) -> int:
        """Opened at the first use: a repository may have more files than a process may open."""
        with self._opening:
            if self._opened is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._opened = os.open(self._path, flags, 0o644)
            return self._opened

    @property
    def parts(self) -> int:
        return -(-self.file.size // PART_BYTES)

    def range(self, part: int) -> tuple[int, int]:
        start = part * PART_BYTES
        return start, min(start + PART_BYTES, self.file.size)

    def missing(self) -> list[int]:
        with self._lock:
            return [part for part in range(self.parts) if part not in self._complete]

    @property
    def present_bytes(self) -> int:
        """Of the parts that are complete."""
        with self._lock:
            return sum(end - start for start, end in map(self.range, self._complete))

    @property
    def allocated_bytes(self) -> int:
        """On the disk: more than are present if parts were interrupted, which will be overwritten."""
        try:
            return min(self._path.stat().st_blocks * 512, self.file.size)
        except FileNotFoundError:
            return 0

    def write(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written

    def complete(self, part: int, check: Callable[[], None]) -> None:
        """Record a part whose content was written; continue the hashes if it is the next one."""
        os.fdatasync(self._descriptor)
        with self._lock:
            with self._journal.open("a") as journal:
                journal.write(f"{part}\n")
            self._complete.add(part)
        if self._hashing.acquire(blocking=False):
            try:
                self._digests.read_up_to(self._descriptor, self._prefix_bytes(), check)
            finally:
                self._hashing.release()

    def _prefix_bytes(self) -> int:
        part = self._digests.length // PART_BYTES
        with self._lock:
            while part in self._complete:
                part += 1
        return min(part * PART_BYTES, self.file.size)

    def finish(self, check: Callable[[], None]) -> Digests:
        """The hashes of the whole file, once every part is complete."""
        with self._hashing:
            self._digests.read_up_to(self._descriptor, self.file.size, check)
            return self._digests

    def publish(self, path: Path) -> None:
        """Move the file to where it belongs."""
        os.ftruncate(self._descriptor, self.file.size)
        os.fsync(self._descriptor)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(path)
        self._journal.unlink(missing_ok=True)
        self.close()

    def discard(self) -> None:
        """Forget what has arrived, because it is not what the source announced."""
        with self._hashing, self._lock:
            self._complete.clear()
            self._journal.unlink(missing_ok=True)
            os.ftruncate(self._descriptor, 0)
            self._digests = Digests(self.file)

    def close(self) -> None:
        with self._opening:
            if self._opened is not None:
                os.close(self._opened)
            self._opened = None


def name_of(file: RemoteFile) -> str:
    """The name of the partial file: another one if the content at the source changes."""
    known = "\0".join((file.path, str(file.size), file.etag, file.sha256, file.md5))
    return hashlib.sha256(known.encode(), usedforsecurity=False).hexdigest()[:32]
