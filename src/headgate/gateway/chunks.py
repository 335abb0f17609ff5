"""Chunk framing (RFC 9112, 7.1) of an answer whose payload is changed on the way."""

from __future__ import annotations

LAST_CHUNK = b"0\r\n\r\n"
_LINE_BYTES = 64


class Chunks:
    """Takes the framing off. It must have been checked before: llhttp reads the same bytes first."""

    __slots__ = ("_line", "_remaining")

    def __init__(self) -> None:
        self._line = b""
        """What has come of a line between chunks."""
        self._remaining = 0
        """Bytes that the chunk still has, its line end included; -1 behind the last chunk."""

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a chunk."""
        return not (self._remaining or self._line)

    @property
    def is_ended(self) -> bool:
        return self._remaining < 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The payload of the chunks, and the bytes from the last chunk on, which pass as they are."""
        payload: list[bytes] = []
        data = self._line + data
        self._line = b""
        at = 0
        while at < len(data):
            if self._remaining < 0:
                return b"".join(payload), data[at:]
            if self._remaining:
                piece = data[at : at + self._remaining]
                at += len(piece)
                self._remaining -= len(piece)
                # The last two bytes of what remains are the line end of the chunk.
                payload.append(piece[: max(0, len(piece) - max(0, 2 - self._remaining))])
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                line = data[at:]
                # Extensions of a chunk mean nothing here, and are not kept.
                self._line = line if len(line) <= _LINE_BYTES else line[:_LINE_BYTES] + b";" + line[-1:]
                break
            size = int(data[at:end].partition(b";")[0], 16)
            if size == 0:
                self._remaining = -1
                continue
            self._remaining = size + 2
            at = end + 2
        return b"".join(payload), b""


def chunk(payload: bytes) -> bytes:
    """The payload as one chunk; nothing for nothing, since an empty chunk is the last."""
    return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""
