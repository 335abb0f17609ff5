"""The gateway's own requests to one endpoint, and whether it responds to them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate import routing
from headgate.engine_client import Client, Response
from headgate.observe.looks import Looks
from headgate.observe.model_list import STALE_S
from headgate.observe.process import Connector
from headgate.observe.targets import Target

MAX_BODY_BYTES = 4 * 1024 * 1024
UNANSWERED_S = 1.0
"""A request without a response for longer is suspicious: pages take milliseconds."""
TEXT = "text/plain; version=0.0.4"


class EndpointRequests:
    """A client of the endpoint, and one of the server of its metrics page, which is often the same."""

    def __init__(self, target: Target, looks: Looks, connector: Connector) -> None:
        """Raises SSLError if the CA certificates for its server are invalid."""
        self.heard_at = -math.inf
        """When the endpoint itself last responded; a page on another server does not count."""
        self._requested_at = math.inf
        """When the open request was sent."""
        self._silent_since = math.inf
        """When the first request without a response since `heard_at` was sent."""
        self._looks = looks
        self._page_client = _client(target, target.page_port, target.page_tls, looks, connector)
        self._client = self._page_client
        if (target.page_port, target.page_tls) != (target.endpoint.port, target.tls):
            self._client = _client(target, target.endpoint.port, target.tls, looks, connector)

    @asynccontextmanager
    async def page(self, path: str) -> AsyncIterator[Response]:
        """The metrics page, which is read within the context. Raises FetchError."""
        try:
            yield await self._get(self._page_client, path, TEXT)
        finally:
            self._page_client.release()

    @asynccontextmanager
    async def json(self, path: str) -> AsyncIterator[Response]:
        """The endpoint's response, which is read within the context. Raises FetchError."""
        try:
            yield await self._get(self._client, path, "application/json")
        finally:
            self._client.release()

    async def _get(self, client: Client, path: str, accept: str) -> Response:
        is_endpoint = client is self._client
        if is_endpoint:
            self._requested_at = self._looks.now()
            self._silent_since = min(self._silent_since, self._requested_at)
        try:
            response = await client.get(path, accept, MAX_BODY_BYTES, self._looks.timeout_s)
        finally:
            self._requested_at = math.inf
        if is_endpoint:
            self.heard_at = self._looks.now()
            self._silent_since = math.inf
        return response

    def is_unanswered(self, now: float) -> bool:
        """Whether the endpoint, which used to respond, leaves a request without a response."""
        used_to_answer = self._silent_since - self.heard_at <= STALE_S
        return now - self._requested_at >= UNANSWERED_S and used_to_answer

    def close(self) -> None:
        self._page_client.close()
        self._client.close()


def _client(target: Target, port: int, tls: routing.Tls | None, looks: Looks, connector: Connector) -> Client:
    endpoint = target.endpoint
    http2 = target.http2 and port == endpoint.port
    return Client(
        endpoint.host,
        port,
        connector.tls_context(tls, http2=http2) if tls is not None else None,
        tls.server_name if tls is not None else "",
        http2=connector.speaking_http2 if http2 else None,
        turns=looks.turns,
        large=looks.large,
    )
