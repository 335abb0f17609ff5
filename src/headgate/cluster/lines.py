"""Cutting a byte stream into lines as it arrives, with a bound on how much one line may hold."""

from collections.abc import Iterator

MAX_LINE_BYTES = 16 << 20
"""Ten times what etcd accepts for one object."""


class LineTooLongError(Exception):
    """The peer sent more than the bound without ending the line."""


class LineSplitter:
    """Collects bytes and gives back whole lines; the rest waits for more, and is lost with the connection."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every line that `data` completes, without its line end; empty lines are left out."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = self._complete(data[start:end])
            start = end + 1
            if line and line != b"\r":
                yield line
        self._hold(data[start:])

    def _complete(self, tail: bytes) -> bytes:
        self._hold(tail)
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._held = [], 0
        return line

    def _hold(self, data: bytes) -> None:
        self._held += len(data)
        if self._held > self._max_bytes:
            raise LineTooLongError(f"a line of the stream is longer than {self._max_bytes} bytes")
        if data:
            self._parts.append(data)
