"""The token of calls that change something."""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import Final

from headgate import private_files
from headgate.runtime.errors import ApiError

MAX_BYTES: Final = 4096


class TokenFile:
    """A file with the token, read again when it changes: a Secret that is mounted changes while Pods run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._token = b""

    def check(self, authorization: bytes) -> None:
        """Raise ApiError unless the header has the token."""
        token = self._read()
        if not token:
            raise ApiError(
                403,
                f"calls that change something need a token, and {self._path} has none: write one into this "
                "file, mount its Secret there, or name another file with --token-file",
            )
        scheme, _, given = authorization.partition(b" ")
        # Both are hashed, so that the time tells nothing, be it the length.
        if scheme.lower() != b"bearer" or not hmac.compare_digest(_digest(given.strip()), _digest(token)):
            raise ApiError(
                401, "send the token of the sidecar as `Authorization: Bearer TOKEN`", [_CHALLENGE]
            )

    def _read(self) -> bytes:
        """The present token; empty if there is none."""
        try:
            status = os.stat(self._path)
            version = status.st_ino, status.st_mtime_ns, status.st_size
            if version != self._version:
                token = private_files.read(self._path, MAX_BYTES + 1).strip()
                self._version, self._token = version, token if len(token) <= MAX_BYTES else b""
        except OSError:
            self._version, self._token = None, b""
        return self._token


_CHALLENGE: Final = (b"www-authenticate", b"Bearer")


def _digest(text: bytes) -> bytes:
    return hmac.digest(b"headgate", text, "sha256")
