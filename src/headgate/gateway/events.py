"""Server-sent events on their way to a client: whole ones, so that a stream can always be ended well.

The gateway asks engines for the token counts of every stream, since limits and metrics need them. For a
client that did not ask, the event that then comes at the end, with counts and without choices, is taken out
again. What is one whole chunk of whole events, as engines send them, passes as it came.
"""

from __future__ import annotations

import re

import msgspec

HELD_BYTES = 64 * 1024
"""An event that is longer is passed on unread: what is held of a stream is bounded."""

_LINE_BYTES = 64
_USAGE = b'"usage"'
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)


class _Event(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_Event).decode


class EventStream:
    """One stream. `is_chunked` says whether it comes and goes in chunks, `takes_usage` whether usage-only
    events are taken out.

    The framing must have been checked before: llhttp reads the same bytes first.
    """

    __slots__ = (
        "_amid_long",
        "_event",
        "_is_chunked",
        "_is_clean",
        "_line",
        "_remaining",
        "_takes_usage",
        "taken_bytes",
    )

    def __init__(self, *, is_chunked: bool, takes_usage: bool) -> None:
        self._is_chunked = is_chunked
        self._takes_usage = takes_usage
        self._is_clean = is_chunked
        """Whether the stream stands between two chunks and two events."""
        self._event = b""
        """What has come of an event that is not complete."""
        self._amid_long = False
        """Whether the beginning of the event was passed on because it is too long to hold."""
        self._line = b""
        """What has come of a line between chunks."""
        self._remaining = 0
        """Bytes that the chunk still has, its line end included; -1 behind the last chunk."""
        self.taken_bytes = 0
        """By how much the stream became shorter."""

    def feed(self, data: bytes) -> bytes:
        """What is to be passed on now."""
        if self._is_clean:
            end = data.find(b"\r\n")
            is_whole = data.endswith(b"\n\n\r\n") and _size(data[:end]) == len(data) - end - 4
            if is_whole and not (self._takes_usage and _USAGE in data):
                return data
        self.taken_bytes += len(data)
        passed = self._chunked(data) if self._is_chunked else self._kept(data)
        self.taken_bytes -= len(passed)
        return passed

    def flush(self) -> bytes:
        """What is held at the end of a stream that is not chunked."""
        rest, self._event = self._event, b""
        self.taken_bytes -= len(rest)
        return rest

    def cut_off(self, event: bytes) -> bytes | None:
        """Ends a stream that broke with this event; None where that is not possible: amid a very long event,
        and behind the end."""
        if self._amid_long or self._remaining < 0:
            return None
        self._event = b""
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event) if self._is_chunked else event

    def _chunked(self, data: bytes) -> bytes:
        payload, after = self._unchunk(data)
        kept = self._kept(payload)
        if after:
            kept += self._event
            self._event = b""
        self._is_clean = not (self._remaining or self._line or self._event or self._amid_long)
        return (b"%x\r\n%b\r\n" % (len(kept), kept) if kept else b"") + after

    def _unchunk(self, data: bytes) -> tuple[bytes, bytes]:
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

    def _kept(self, payload: bytes) -> bytes:
        """The events that are complete and not to be taken out."""
        text = self._event + payload
        kept: list[bytes] = []
        start = 0
        # A line end may be cut, so that the search begins a little before what is new.
        at = max(0, len(self._event) - 3)
        while (found := _EVENT_END.search(text, at)) is not None:
            at = found.end()
            event = text[start:at]
            if self._amid_long or not (self._takes_usage and _is_usage_only(event)):
                kept.append(event)
            self._amid_long = False
            start = at
        self._event = text[start:]
        if self._amid_long or len(self._event) > HELD_BYTES:
            # Its last bytes may be the beginning of its end.
            keep = max(0, len(self._event) - 3)
            kept.append(self._event[:keep])
            self._event = self._event[keep:]
            self._amid_long = True
        return b"".join(kept)


def _size(line: bytes) -> int:
    """The size of a chunk whose line has nothing else; -1 if it has."""
    try:
        return int(line, 16)
    except ValueError:
        return -1


def _is_usage_only(event: bytes) -> bool:
    if _USAGE not in event:
        return False
    try:
        decoded = _decode(b"\n".join(_DATA.findall(event)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return decoded.choices == [] and decoded.usage is not None
