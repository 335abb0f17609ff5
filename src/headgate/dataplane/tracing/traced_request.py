"""What tracing needs of the head of a request, for any shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.telemetry.tracing import Trace


class TracedRequest(Protocol):
    """The head of a client's request."""

    trace: Trace | None
    unsampled: bytes

    @property
    def traceparent(self) -> bytes: ...
    @property
    def is_from_trusted(self) -> bool: ...
    def send_trace(self, traceparent: bytes, *, is_new: bool) -> None: ...
    def send_unsampled(self, ids: bytes) -> None: ...
