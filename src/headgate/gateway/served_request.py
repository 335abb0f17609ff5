"""A request that is served over HTTP, as logs, metrics and headers tell of it."""

from __future__ import annotations

from typing import Protocol

from headgate.gateway.request import Request
from headgate.requests.life import Life


class ServedRequest(Protocol):
    """What happened is in `life`; what came over HTTP in `request`."""

    @property
    def life(self) -> Life: ...
    @property
    def request(self) -> Request: ...
    @property
    def request_id(self) -> bytes: ...
