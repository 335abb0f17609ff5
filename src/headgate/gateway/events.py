"""Server-sent events on their way to a client: whole ones, so that a stream can always be ended well.

The gateway asks engines for the token counts of every stream, since limits and metrics need them. For a
client that did not ask, the event that then comes at the end, with counts and without choices, is taken out
again. Where the endpoint knows the model by another name, each event gets the client's. What is one whole
chunk of whole events, as engines send them, passes as it came.
"""

from __future__ import annotations

import re
from typing import Final

from headgate.gateway.chunks import LAST_CHUNK, Chunks, chunk, payload_at
from headgate.gateway.names import NameSplice
from headgate.gateway.usage_events import has_usage, is_usage_only

HELD_BYTES: Final = 64 * 1024
"""An event that is longer is passed on unread: what is held of a stream is bounded."""

_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MODEL: Final = b'"model"'
_FIRST_DATA: Final = re.compile(rb"(?:^|[\r\n])data:")


class EventStream:
    """One stream. `is_chunked` says whether it comes and goes in chunks, `takes_usage` whether usage-only
    events are taken out, `name` is the JSON string of the model's name as the client knows it, empty where
    the endpoint knows it by the same.
    """

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
        """How an event began, up to the end of its model's name, and how it was passed on. Those of one
        stream begin alike: what begins so as well is not searched again."""
        self._is_clean = is_chunked
        """Whether the stream stands between two chunks and two events."""
        self._event = b""
        """What has come of an event that is not complete."""
        self._long: NameSplice | None = None
        """Of an event whose beginning was passed on, because it is too long to hold."""
        self.taken_bytes = 0
        """By how much the stream became shorter."""

    def feed(self, data: bytes) -> bytes:
        """What is to be passed on now."""
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
        """What is held at the end of a stream that is not chunked."""
        rest = self._last()
        self.taken_bytes -= len(rest)
        return rest

    def cut_off(self, event: bytes) -> bytes | None:
        """Ends a stream that broke with this event; None where that is not possible: amid a very long event,
        and behind the end."""
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
        """The events that are complete and not to be taken out."""
        text = self._event + payload
        kept: list[bytes] = []
        start = 0
        # A line end may be cut, so that the search begins a little before what is new.
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
        """What is held of an event that did not end before the stream did."""
        rest, self._event = self._event, b""
        if self._long is not None:
            return self._long.feed(rest) + self._long.flush()
        return self._renamed(rest) if self._name else rest

    def _renamed(self, event: bytes) -> bytes:
        """The event with the client's name of the model."""
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
    """Where the first data of an event begins; other fields may come before it."""
    found = _FIRST_DATA.search(event)
    return found.end() if found is not None else len(event)


def _is_one_event(chunked: bytes, start: int) -> bool:
    """Whether a chunk that ends with an event has no other before it."""
    return chunked.find(b"\n\n", start) == len(chunked) - 4 and chunked.find(b"\r", start) == len(chunked) - 2
