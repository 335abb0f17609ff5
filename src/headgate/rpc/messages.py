"""Puts gRPC messages together that arrive in several DATA frames."""

from __future__ import annotations

from headgate.rpc import status
from headgate.rpc.errors import CallError
from headgate.rpc.frames import PREFIX_BYTES
from headgate.rpc.limits import Holdings


class MessageReader:
    """The incomplete message of one call."""

    __slots__ = ("_buffer", "_held", "_max_bytes", "_missing", "fault", "is_between", "since_s")

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
        self.since_s: float | None = None
        """When the sweep of the connection first saw this message incomplete."""
        self.fault: CallError | None = None
        """Why the call must end, after the messages before have been passed on."""

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
        self.since_s = None

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
