"""A request that is served over HTTP, as seen by logs, metrics and headers."""

from __future__ import annotations

from typing import Protocol

from headgate.gateway.request import Request
from headgate.requests.life import Life


class ServedRequest(Protocol):
    """`life` has its history, and `request` the HTTP request."""

    @property
    def life(self) -> Life: ...
    @property
    def request(self) -> Request: ...
    @property
    def request_id(self) -> bytes: ...
