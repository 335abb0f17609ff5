"""Server-sent events for a client: forwards only whole events, so that a stream can always be ended properly.

The gateway asks engines for the token counts of every stream, since limits and metrics need them. For a
client that did not ask, the final event with counts and without choices is removed. If the endpoint uses
another name for the model, each event gets the client's name. A chunk with exactly whole events, as engines
send them, is forwarded unchanged.
"""

from __future__ import annotations

import re
from typing import Final

from headgate.dataplane.rewriting.chunks import LAST_CHUNK, Chunks, chunk, payload_at
from headgate.dataplane.rewriting.names import NameSplice
from headgate.dataplane.rewriting.usage_events import has_usage, is_usage_only

HELD_BYTES: Final = 64 * 1024
"""A longer event is forwarded unread, to bound the memory per stream."""

_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MODEL: Final = b'"model"'
_FIRST_DATA: Final = re.compile(rb"(?:^|[\r\n])data:")


class EventStream:
    """One stream. `is_chunked`: it is received and sent in chunks. `takes_usage`: remove usage-only events.
    `name`: the client's model name as a JSON string; empty if the endpoint uses the same name."""

    __slots__ = (
        "_begins",
        "_begins_renamed",
        "_chunks",
        "_event",
        "_is_clean",
        "_long",
        "_name",
        "_takes_usage",
        "taken_bytes",
    )

    def __init__(self, *, is_chunked: bool, takes_usage: bool, name: bytes = b"") -> None:
        self._chunks = Chunks() if is_chunked else None
        self._takes_usage = takes_usage
        self._name = name
        self._begins = self._begins_renamed = b""
        """The beginning of an event up to the end of its model name, as received and as sent. Events of one
        stream begin alike: one with the same beginning is not searched again."""
        self._is_clean = is_chunked
        """Whether the stream is between two chunks and two events."""
        self._event = b""
        """The received part of an incomplete event."""
        self._long: NameSplice | None = None
        """For an event whose beginning was forwarded, because it is too long to hold."""
        self.taken_bytes = 0
        """Bytes removed from the stream by the gateway."""

    def feed(self, data: bytes) -> bytes:
        """The bytes to forward now."""
        at = payload_at(data) if self._is_clean else 0
        if at and data.endswith(b"\n\n\r\n") and not (self._takes_usage and has_usage(data)):
            if not self._name or data.find(_MODEL) < 0:
                return data
            if self._begins and data.startswith(self._begins, at) and _is_one_event(data, at):
                rest = data[at + len(self._begins) : -2]
                passed = chunk(self._begins_renamed + rest)
                self.taken_bytes += len(data) - len(passed)
                return passed
        self.taken_bytes += len(data)
        passed = self._kept(data) if self._chunks is None else self._rechunked(self._chunks, data)
        self.taken_bytes -= len(passed)
        return passed

    def flush(self) -> bytes:
        """The rest at the end of a stream that is not chunked."""
        rest = self._last()
        self.taken_bytes -= len(rest)
        return rest

    def cut_off(self, event: bytes) -> bytes | None:
        """The end of a broken stream with this event; None if that is not possible: within a very long event,
        or after the end."""
        if self._long is not None or (self._chunks is not None and self._chunks.is_ended):
            return None
        self._event = b""
        return event if self._chunks is None else chunk(event) + LAST_CHUNK

    def _rechunked(self, chunks: Chunks, data: bytes) -> bytes:
        payload, after = chunks.feed(data)
        kept = self._kept(payload)
        if after:
            kept += self._last()
        self._is_clean = chunks.is_between and not self._event and self._long is None
        return chunk(kept) + after

    def _kept(self, payload: bytes) -> bytes:
        """The complete events, without those to remove."""
        text = self._event + payload
        kept: list[bytes] = []
        start = 0
        # A line end may be split, so the search begins shortly before the new data.
        at = max(0, len(self._event) - 3)
        while (found := _EVENT_END.search(text, at)) is not None:
            at = found.end()
            event = text[start:at]
            if self._long is not None:
                kept += (self._long.feed(event), self._long.flush())
                self._long = None
            elif not (self._takes_usage and is_usage_only(event)):
                kept.append(self._renamed(event) if self._name else event)
            start = at
        self._event = text[start:]
        if self._long is not None or len(self._event) > HELD_BYTES:
            # Its last bytes may be the beginning of its end.
            keep = max(0, len(self._event) - 3)
            kept.append(self._passed_unread(self._event[:keep]))
            self._event = self._event[keep:]
        return b"".join(kept)

    def _passed_unread(self, part: bytes) -> bytes:
        if self._long is not None:
            return self._long.feed(part)
        self._long = NameSplice(self._name, nested=True)
        start = _data_at(part)
        return part[:start] + self._long.feed(part[start:])

    def _last(self) -> bytes:
        """The rest of an event that did not end before the stream did."""
        rest, self._event = self._event, b""
        if self._long is not None:
            return self._long.feed(rest) + self._long.flush()
        return self._renamed(rest) if self._name else rest

    def _renamed(self, event: bytes) -> bytes:
        """The event with the client's model name."""
        if self._begins and event.startswith(self._begins):
            return self._begins_renamed + event[len(self._begins) :]
        if event.find(_MODEL) < 0:
            return event
        splice = NameSplice(self._name, nested=True)
        start = _data_at(event)
        renamed = event[:start] + splice.feed(event[start:])
        if splice.place is not None:
            end = start + splice.place[1]
            self._begins = event[:end]
            self._begins_renamed = renamed[: end + splice.growth]
        return renamed + splice.flush()


def _data_at(event: bytes) -> int:
    """The position of the first data of an event; other fields may precede it."""
    found = _FIRST_DATA.search(event)
    return found.end() if found is not None else len(event)


def _is_one_event(chunked: bytes, start: int) -> bool:
    """Whether a chunk that ends with an event contains no other."""
    return chunked.find(b"\n\n", start) == len(chunked) - 4 and chunked.find(b"\r", start) == len(chunked) - 2
