"""What the transfer needs of a source; the hub, S3 and directories each implement it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from headgate.downloads.listing import Listing, Patterns, RemoteFile


class Remote(Protocol):
    """One source. Methods raise TemporaryError, ChangedError and DownloadError."""

    def list(self, patterns: Patterns) -> Listing:
        """The files to download, checked."""

    def read(self, file: RemoteFile, start: int, end: int) -> AbstractContextManager[Iterator[bytes]]:
        """Content of the file from `start` to `end`, at most; called by several threads."""

    def is_hash_known(self, file: RemoteFile) -> bool:
        """Whether the hash of the listing is one of the content; asked if it does not match."""

    def close(self) -> None: ...
