"""Follows the frames of one side of a WebSocket (RFC 6455, 5.2), to know where one ends."""

from __future__ import annotations

from typing import Final

_LONG: Final = {126: 2, 127: 8}
"""Bytes of a longer length, by the short length that announces it."""
_MASK_BYTES: Final = 4
_CLOSE: Final = 8
_CONTROL: Final = 8
"""Set in the opcodes of control frames, which may come between the frames of a message."""
GOING_AWAY: Final = 1001
POLICY: Final = 1008
TRY_AGAIN_LATER: Final = 1013
BAD_GATEWAY: Final = 1014
MAX_REASON_BYTES: Final = 123


class Frames:
    """The position within the frames that one side sends."""

    __slots__ = ("_head", "_is_control", "_left", "is_closing")

    def __init__(self) -> None:
        self._head = b""
        """The part of a frame's head so far."""
        self._left = 0
        """Bytes of the payload still to come."""
        self._is_control = False
        """Whether the payload is that of a control frame."""
        self.is_closing = False
        """Whether a close frame has passed, after which nothing may follow."""

    @property
    def is_between(self) -> bool:
        """Whether a further frame can be sent now."""
        return not self._left and not self._head

    def feed(self, data: bytes) -> bytes:
        """The next bytes. Returns those of messages in them, without the heads of frames, so that a text is
        whole that its sender has split. Most data has one frame or a part of it: then nothing is joined."""
        at = min(self._left, len(data))
        self._left -= at
        if at == len(data):
            return b"" if self._is_control else data
        parts = [data[:at]] if at and not self._is_control else []
        while at < len(data):
            head = self._head + data[at : at + 14 - len(self._head)]
            size = _head_bytes(head)
            if len(head) < size:
                self._head = head
                break
            at += size - len(self._head)
            self._head = b""
            self.is_closing = self.is_closing or head[0] & 0x0F == _CLOSE
            self._left = _payload_bytes(head)
            passed = min(self._left, len(data) - at)
            self._left -= passed
            self._is_control = bool(head[0] & _CONTROL)
            if not self._is_control:
                parts.append(data[at : at + passed])
            at += passed
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _head_bytes(head: bytes) -> int:
    """The length of a frame's head, as far as it is known."""
    if len(head) < 2:
        return 2
    return 2 + _LONG.get(head[1] & 0x7F, 0) + (_MASK_BYTES if head[1] & 0x80 else 0)


def _payload_bytes(head: bytes) -> int:
    short = head[1] & 0x7F
    return int.from_bytes(head[2 : 2 + _LONG[short]], "big") if short in _LONG else short


def close_frame(code: int, reason: str) -> bytes:
    """A close frame as servers send it."""
    payload = code.to_bytes(2, "big") + reason.encode()[:MAX_REASON_BYTES]
    return bytes((0x80 | _CLOSE, len(payload))) + payload
