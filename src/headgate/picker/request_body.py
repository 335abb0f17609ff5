"""The body of a request as it arrives: in parts, until the proxy says that it is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import extproc
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.dataplane.bodies import BodyMemory
    from headgate.picker.request import ProxiedRequest


class RequestBody:
    """`mode`: how the proxy sends it, such as extproc.BUFFERED."""

    __slots__ = ("_parts", "has_trailers", "is_complete", "mode", "size")

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self._parts: list[bytes] = []
        self.size = 0
        self.is_complete = False
        self.has_trailers = False
        """Whether trailers came with it, which end it."""

    @property
    def is_buffered(self) -> bool:
        return self.mode == extproc.BUFFERED

    def add(
        self, part: bytes, request: ProxiedRequest, memory: BodyMemory, most_bytes: int
    ) -> Refusal | None:
        """Keep a part; returns why it is too much, if it is."""
        self.size += len(part)
        if self.size > most_bytes:
            return Refusal.bad_request(
                f"the request body is longer than {most_bytes} bytes", code="body_too_large", status=413
            )
        if part:
            self._parts.append(part)
            memory.recount(request, self.size)
            if memory.is_exceeded_by(self.size):
                return memory.refusal()
        return None

    def whole(self) -> bytes:
        """The complete body, which is kept no longer."""
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)


def mode_problem(mode: int) -> str:
    """Why bodies cannot be sent in this mode; empty if they can."""
    if mode in (extproc.FULL_DUPLEX_STREAMED, extproc.BUFFERED, extproc.NONE):
        return ""
    return (
        "the picker changes headers when it has seen the body, which this request_body_mode does not allow: "
        "use FULL_DUPLEX_STREAMED or BUFFERED"
    )
