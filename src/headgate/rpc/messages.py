"""Finds the gRPC messages in the content of a stream, and puts those together that arrive in pieces."""

from __future__ import annotations

import struct
from typing import Final, Protocol

from headgate.http2 import Holdings, Http2, Stream, User
from headgate.rpc import status
from headgate.rpc.errors import CallError

PREFIX_BYTES: Final = 5
"""Before each message: whether it is compressed, and its length."""
_PREFIX: Final = struct.Struct(">BI")


def prefix(size: int) -> bytes:
    """What stands before a message of `size` bytes."""
    return _PREFIX.pack(0, size)


class Call(User, Protocol):
    """Whose messages are read. It hears nothing after `reject`, or once it is not the user of its stream."""

    def take(self, message: bytes) -> None: ...
    def reject(self, fault: CallError) -> None:
        """What the peer sent cannot be passed on; the call has to end the stream."""


class MessageReader:
    """Reads the messages of one call, and keeps its incomplete one."""

    __slots__ = ("_buffer", "_held", "_max_bytes", "_missing", "fault", "is_between")

    def __init__(self, max_bytes: int, held: Holdings) -> None:
        self._max_bytes = max_bytes
        self._held = held
        self._buffer = bytearray()
        """The incomplete message or prefix. One buffer: a list of parts of two bytes would take twenty times
        their length."""
        self._missing = 0
        """Bytes until the message is complete; 0 while its prefix is incomplete."""
        self.is_between = True
        """Whether no message is incomplete."""
        self.fault: CallError | None = None
        """Why the call must end, after the messages before have been passed on."""

    def read(self, http2: Http2, stream: Stream, call: Call, data: bytes, begin: int, end: int) -> None:
        """Pass on the messages in content of the stream of a call, mostly exactly one."""
        first = begin + PREFIX_BYTES
        if (
            first <= end
            and self.is_between
            and first + int.from_bytes(data[begin:first], "big") == end
            and end - first <= self._max_bytes
        ):
            call.take(data[first:end])
            return
        messages = self.feed(data[begin:end])
        if messages:
            http2.await_rest(stream, is_awaited=False)  # the next message has its own time
        for message in messages:
            if stream.user is not call:
                self.drop()
                break
            call.take(message)
        if self.fault is not None and stream.user is call:
            call.reject(self.fault)
        http2.await_rest(stream, is_awaited=not self.is_between)

    def feed(self, payload: bytes) -> list[bytes]:
        """The messages that are complete with this payload. None are after `fault` was set."""
        if self.fault is not None:
            return []
        if self._missing:
            if len(payload) < self._missing:
                self._keep(payload)
                self._missing -= len(payload)
                return []
            at = self._missing
            self._buffer += payload[:at]
            message = bytes(self._buffer)
            self._held.give(len(message) - at)
            self._reset()
            return [message, *self._whole(payload, at)]
        if self._buffer:  # of the prefix
            payload = bytes(self._buffer) + payload
            self.drop()
        return self._whole(payload, 0)

    def _whole(self, payload: bytes, at: int) -> list[bytes]:
        messages: list[bytes] = []
        size = len(payload)
        while at + PREFIX_BYTES <= size:
            if payload[at]:
                self._fail(status.INTERNAL, "a message is compressed, but grpc-encoding is identity")
                return messages
            begin = at + PREFIX_BYTES
            length = int.from_bytes(payload[at + 1 : begin], "big")
            if length > self._max_bytes:
                self._fail(
                    status.RESOURCE_EXHAUSTED,
                    f"a message of {length} bytes exceeds the limit of {self._max_bytes}",
                )
                return messages
            end = begin + length
            if end > size:
                self._keep(payload[begin:])
                self._missing = end - size
                return messages
            messages.append(payload[begin:end])
            at = end
        if at < size:
            self._keep(payload[at:])
        return messages

    @property
    def held_bytes(self) -> int:
        """Length of the incomplete message, as far as it has arrived."""
        return len(self._buffer)

    def drop(self) -> None:
        """Forget the incomplete message."""
        self._held.give(len(self._buffer))
        self._reset()

    def _reset(self) -> None:
        self._buffer = bytearray()
        self._missing = 0
        self.is_between = True

    def _keep(self, part: bytes) -> None:
        if not self._held.take(len(part)):
            self._fail(
                status.RESOURCE_EXHAUSTED,
                f"incomplete messages of all calls together exceed {self._held.limit_bytes} bytes",
            )
            return
        self._buffer += part
        self.is_between = False

    def _fail(self, code: int, message: str) -> None:
        self.drop()
        self.fault = CallError(code, message)
