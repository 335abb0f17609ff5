"""Directories, such as mounted claims, as sources."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.downloads.errors import ChangedError, DownloadError, Reason
from headgate.downloads.listing import OWN_DIRECTORY, Listing, Patterns, RemoteFile, checked
from headgate.downloads.sources import DirectorySource

_PIECE = 1 << 20


class Tree:
    """Symbolic links are followed if they stay inside: in the directory, or in the hub's cache around it."""

    def __init__(self, source: DirectorySource) -> None:
        self._source = source
        self._root = source.path.resolve()
        # models--org--name/snapshots/COMMIT has links to models--org--name/blobs
        is_snapshot = self._root.parent.name == "snapshots"
        self._inside = (self._root, self._root.parent.parent / "blobs") if is_snapshot else (self._root,)

    def list(self, patterns: Patterns) -> Listing:
        if not self._root.is_dir():
            fix = "mount the claim there" if self._source.text.startswith("pvc://") else "check the path"
            raise DownloadError(
                Reason.NOT_FOUND, f"{self._source}: there is no directory {self._source.path}; {fix}"
            )
        return Listing(checked(str(self._source), self._files(patterns), patterns))

    def _files(self, patterns: Patterns) -> Iterator[RemoteFile]:
        def fail(error: OSError) -> None:
            raise error

        for folder, folders, names in os.walk(self._root, onerror=fail):
            folders[:] = [name for name in folders if name != OWN_DIRECTORY]
            for name in (*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))):
                path = Path(folder, name)
                relative = path.relative_to(self._root).as_posix()
                if patterns.select(relative):
                    yield self._file(path, relative)

    def _file(self, path: Path, relative: str) -> RemoteFile:
        target = path.resolve()
        if not any(target.is_relative_to(each) for each in self._inside):
            raise DownloadError(
                Reason.REFUSED,
                f"{self._source} is refused: {relative!r} is a link to {target}, outside of it",
            )
        if not target.is_file():  # a device, a socket, or a link to a directory
            raise DownloadError(
                Reason.REFUSED,
                f"{self._source} is refused: {relative!r} is not a regular file; exclude it",
            )
        found = target.stat()
        return RemoteFile(relative, found.st_size, etag=f"{found.st_mtime_ns}-{found.st_ino}")

    @contextmanager
    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[Iterator[bytes]]:
        try:
            if self._file(self._root / file.path, file.path).etag != file.etag:
                raise ChangedError(f"{file.path} has changed")
            with (self._root / file.path).open("rb") as opened:
                opened.seek(start)
                yield _pieces(opened.fileno(), start, end)
        except FileNotFoundError as error:
            raise ChangedError(f"{file.path} was removed") from error

    def is_hash_known(self, file: RemoteFile) -> bool:
        return True

    def close(self) -> None: ...


def _pieces(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (piece := os.pread(descriptor, min(_PIECE, end - start), start)):
        start += len(piece)
        yield piece
