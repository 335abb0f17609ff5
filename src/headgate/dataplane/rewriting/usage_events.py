"""Server-sent events with token counts and nothing else, which engines send at the end of a stream."""

from __future__ import annotations

import re

import msgspec

_USAGE = b'"usage"'
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)


class _Event(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_Event).decode


def has_usage(data: bytes) -> bool:
    """Whether the event may have counts; some engines send a null `usage` in every event."""
    if data.find(_USAGE) < 0:
        return False
    return data.count(_USAGE) > data.count(b'"usage":null') + data.count(b'"usage": null')


def _data(event: bytes) -> bytes:
    """The data of an event, which is nearly always on its only line."""
    if event.startswith(b"data:") and event.find(b"\n") >= len(event) - 2:
        return event[len(b"data:") :]
    return b"\n".join(_DATA.findall(event))


def is_usage_only(event: bytes) -> bool:
    if not has_usage(event):
        return False
    try:
        decoded = _decode(_data(event))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return decoded.choices == [] and decoded.usage is not None
