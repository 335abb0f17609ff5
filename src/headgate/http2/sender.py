"""What one connection sends: frames of one turn as one write, data within the peer's windows.

Data that the windows or the socket do not take is queued with its stream, and sent in turn, a frame of each
stream after the other, as the windows open.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from headgate.http2 import frames
from headgate.http2.limits import Holdings
from headgate.http2.stream import Stream

MAX_TURN_BYTES: Final = 256 * 1024
"""Sent in one turn of the event loop from queues; the rest is sent in later ones, as the socket takes it."""


class Sender:
    """The sending side of one connection."""

    __slots__ = (
        "_held",
        "_high_water",
        "blocked",
        "ended",
        "initial_window",
        "may_write",
        "out",
        "out_bytes",
        "sent_bytes",
        "window",
    )

    def __init__(self, held: Holdings, high_water: int) -> None:
        self._held = held
        self._high_water = high_water
        self.out: list[bytes] = []
        """Frames to write."""
        self.out_bytes = 0
        self.sent_bytes = 0
        """All frames that were taken, since the beginning."""
        self.may_write = True
        """Whether the socket takes more."""
        self.window = frames.DEFAULT_WINDOW
        """Of the connection."""
        self.initial_window = frames.DEFAULT_WINDOW
        """Of a new stream."""
        self.blocked: OrderedDict[int, Stream] = OrderedDict()
        """Streams with a queue, in the order of their turns."""
        self.ended: list[Stream] = []
        """Streams whose side has ended behind their queue since the connection last looked."""

    def take(self) -> bytes:
        """All frames to write now."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        self.sent_bytes += self.out_bytes
        self.out = []
        self.out_bytes = 0
        return data

    def control(self, frame: bytes) -> None:
        """Send frames to which no window applies."""
        self.out.append(frame)
        self.out_bytes += len(frame)

    def takes(self, stream: Stream, size: int) -> bool:
        """Whether this much data can be sent at once, in one frame."""
        return (
            stream.queue is None
            and size <= frames.MAX_FRAME_BYTES
            and size <= stream.send_window
            and size <= self.window
            and self.may_write
            and self.out_bytes < MAX_TURN_BYTES
        )

    def put(self, stream: Stream, data: bytes, flags: int = 0, prefix: bytes = b"") -> None:
        """Send data that it takes, in one frame."""
        size = len(data) + len(prefix)
        stream.send_window -= size
        self.window -= size
        self.out_bytes += size + frames.HEADER_BYTES
        self.out.append(frames.head(frames.DATA, stream.id, size, flags) + prefix)
        self.out.append(data)

    def data(self, stream: Stream, data: bytes, prefix: bytes = b"") -> bool:
        """Send data with a prefix, or queue it. False if there is no space for it."""
        size = len(data) + len(prefix)
        if self.takes(stream, size):
            self.put(stream, data, 0, prefix)
            return True
        if not self._held.take(size):
            return False
        is_first = stream.queue is None
        if stream.queue is None:
            stream.queue = deque()
            self.blocked[stream.id] = stream
        if prefix:
            stream.queue.append(memoryview(prefix))
        if data:
            stream.queue.append(memoryview(data))
        stream.queued_bytes += size
        if is_first:
            self._send_frames(stream)
        if stream.queued_bytes > self._high_water:
            stream.is_full = True
        return True

    def end(self, stream: Stream, frame: bytes) -> bool:
        """Send the frame that ends this side of the stream. False if it waits behind the queue."""
        if stream.queue is None:
            self.control(frame)
            return True
        stream.ends = frame
        return False

    def drop(self, stream: Stream) -> None:
        """Forget what is queued: the stream has ended."""
        if stream.queue is not None:
            self._held.give(stream.queued_bytes)
            stream.queue, stream.queued_bytes, stream.ends = None, 0, None
            self.blocked.pop(stream.id, None)

    def pump(self) -> list[Stream]:
        """Send as much from the queues as windows, socket and turn take. Returns streams that are
        writable again."""
        drained: list[Stream] = []
        skipped = 0
        blocked = self.blocked
        while skipped < len(blocked) and self.may_write and self.out_bytes < MAX_TURN_BYTES:
            stream = next(iter(blocked.values()))
            if stream.send_window <= 0 or self.window <= 0:
                blocked.move_to_end(stream.id)
                skipped += 1
                continue
            skipped = 0
            self._send_frame(stream)
            if stream.queue is not None:
                blocked.move_to_end(stream.id)
            if stream.is_full and stream.queued_bytes <= self._high_water // 2:
                stream.is_full = False
                drained.append(stream)
        return drained

    @property
    def can_send(self) -> bool:
        """Whether a later turn can send more without hearing from the peer."""
        return (
            self.may_write
            and self.window > 0
            and any(stream.send_window > 0 for stream in self.blocked.values())
        )

    def _send_frames(self, stream: Stream) -> None:
        """Send what the windows take of data that was not queued before."""
        while (
            stream.queue is not None
            and stream.send_window > 0
            and self.window > 0
            and self.may_write
            and self.out_bytes < MAX_TURN_BYTES
        ):
            self._send_frame(stream)

    def _send_frame(self, stream: Stream) -> None:
        """Send one frame from a queue, of several pieces if they are short."""
        queue = stream.queue
        assert queue is not None
        space = min(stream.send_window, self.window, frames.MAX_FRAME_BYTES)
        parts: list[bytes] = []
        size = 0
        while queue and size < space:
            part = queue[0]
            if len(part) <= space - size:
                queue.popleft()
            else:
                queue[0] = part[space - size :]
                part = part[: space - size]
            size += len(part)
            parts.append(bytes(part))
        self.out.append(frames.head(frames.DATA, stream.id, size))
        self.out += parts
        self.out_bytes += size + frames.HEADER_BYTES
        stream.send_window -= size
        self.window -= size
        stream.queued_bytes -= size
        stream.stalled_since_s = None
        self._held.give(size)
        if not queue:
            stream.queue = None
            del self.blocked[stream.id]
            if stream.ends is not None:
                self.control(stream.ends)
                stream.ends = None
                self.ended.append(stream)
