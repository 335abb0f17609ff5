"""A request in the form in which endpoints receive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.dataplane.tracing import places

if TYPE_CHECKING:
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.requests.bodies.pieces import Pieces
    from headgate.routing import Pool


class Outgoing:
    """The bytes to send, rebuilt only if an attempt needs another body."""

    __slots__ = ("_body", "_is_traced", "_prefix", "_request_id", "long_body", "payload")

    def __init__(self, request_id: bytes) -> None:
        self._request_id = request_id
        self._is_traced = False
        """Whether the sampling decision for a trace was made."""
        self._body: bytes | Pieces | None = None
        """The body of the current payload."""
        self._prefix = ""
        """The prefix of the path in it."""
        self.payload = b""
        self.long_body: bytes | Pieces = b""
        """Sent after the payload, so that it is not copied; empty if the payload includes the body."""

    def prepare(
        self, services: Services, request: Request, body: bytes | Pieces, prefix: str, number: int
    ) -> None:
        """Build the payload for this body and an endpoint with this prefix of paths; `number` is that of the
        attempt."""
        trace = request.trace
        is_other = body is not self._body or prefix != self._prefix
        if is_other or (trace is not None and trace.is_sampled):
            self.name_parent(services, request, number)
            self._body, self._prefix = body, prefix
            self.payload, self.long_body = request.parts(body, self._request_id, prefix)

    def prepare_outside(self, services: Services, request: Request, pool: Pool, body: bytes | Pieces) -> None:
        """Build the payload for an external provider, which gets nothing of the client's head. Raises
        GoneError."""
        self._body = None
        head = services.providers.head(pool, request, len(body))
        self.payload, self.long_body = head, body

    def name_parent(
        self, services: Services, request: Request, number: int, *, is_prefill: bool = False
    ) -> None:
        """Decide once whether the request is sampled. If it is, the spans of the endpoint belong to this
        attempt, or to its prefill."""
        if not self._is_traced:
            self._is_traced = True
            if (tracer := services.recorder.tracer) is not None:
                tracer.begin(request)
            elif ratio := services.settings.tracing.sample_ratio:
                services.identities.begin_trace(request, ratio)
        trace = request.trace
        if trace is not None and trace.is_sampled:
            place = places.of_prefill(number) if is_prefill else places.of_attempt(number)
            request.send_trace(trace.traceparent(place), is_new=not trace.parent_id)

    def drop(self) -> None:
        """Free the body: it is not sent again."""
        self._body, self.payload, self.long_body = None, b"", b""
