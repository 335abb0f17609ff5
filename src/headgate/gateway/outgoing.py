"""A request in the form in which endpoints receive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.requests.bodies.pieces import Pieces


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

    def prepare(self, services: Services, request: Request, body: bytes | Pieces, prefix: str) -> None:
        """Build the payload for this body and an endpoint with this prefix of paths."""
        if body is not self._body or prefix != self._prefix:
            self.begin_trace(services, request)
            self._body, self._prefix = body, prefix
            self.payload, self.long_body = request.parts(body, self._request_id, prefix)

    def begin_trace(self, services: Services, request: Request) -> None:
        """Decide once, at random, whether the request begins a trace."""
        if not self._is_traced:
            self._is_traced = True
            ratio = services.settings.tracing.sample_ratio
            if ratio:
                services.identities.begin_trace(request, ratio)

    def drop(self) -> None:
        """Free the body: it is not sent again."""
        self._body, self.payload, self.long_body = None, b"", b""
