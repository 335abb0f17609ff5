"""Hashes of a file, computed while its parts arrive."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headgate.downloads.listing import RemoteFile

_BLOCK = 1 << 20


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Md5OfParts:
    """The ETag of an object of S3 that was uploaded in parts of one size."""

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._parts = b""
        self._part = hashlib.md5(usedforsecurity=False)
        self._length = 0

    def update(self, data: bytes, /) -> None:
        view = memoryview(data)
        while view:
            piece = view[: self._part_bytes - self._length]
            self._part.update(piece)
            self._length += len(piece)
            view = view[len(piece) :]
            if self._length == self._part_bytes:
                self._end_part()

    def _end_part(self) -> None:
        self._parts += self._part.digest()
        self._part, self._length = hashlib.md5(usedforsecurity=False), 0

    def hexdigest(self) -> str:
        last = self._part.digest() if self._length else b""
        parts = self._parts + last
        return f"{hashlib.md5(parts, usedforsecurity=False).hexdigest()}-{len(parts) // 16}"


class Digests:
    """SHA-256 for the manifest, and whichever other hash the source announced."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._others: list[tuple[str, _Hash, str]] = []
        if file.git_sha1:
            git = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
            self._others.append(("SHA-1", git, file.git_sha1))
        if file.md5_part_bytes:
            self._others.append(("MD5", _Md5OfParts(file.md5_part_bytes), file.md5))
        elif file.md5:
            self._others.append(("MD5", hashlib.md5(usedforsecurity=False), file.md5))
        self.length = 0

    def read_up_to(self, descriptor: int, end: int, check: Callable[[], None]) -> None:
        """Continue with the content of the open file up to `end`; `check` raises to break off."""
        while self.length < end:
            check()
            block = os.pread(descriptor, min(_BLOCK, end - self.length), self.length)
            if not block:
                return
            self._sha256.update(block)
            for _, hash_, _ in self._others:
                hash_.update(block)
            self.length += len(block)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def problem(self) -> str:
        """How the content differs from what the source announced; empty if it does not."""
        if self.length != self._file.size:
            return f"has {self.length} bytes instead of {self._file.size}"
        expected = [("SHA-256", self._sha256, self._file.sha256)] if self._file.sha256 else []
        for name, hash_, announced in (*expected, *self._others):
            if (found := hash_.hexdigest()) != announced:
                return f"has the {name} hash {found} instead of {announced}"
        return ""


def sha256_of(path: Path, check: Callable[[], None] = lambda: None) -> str:
    """Raises OSError."""
    digests = Digests(RemoteFile("", 0))
    with path.open("rb") as file:
        digests.read_up_to(file.fileno(), os.fstat(file.fileno()).st_size, check)
    return digests.sha256
