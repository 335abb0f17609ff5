"""A request as logs and metrics see it at its end."""

from __future__ import annotations

from typing import Protocol

from headgate.gateway.request import Request
from headgate.requests.life import Life


class Ended(Protocol):
    """What happened is in `life`; what came over HTTP in `request`."""

    @property
    def life(self) -> Life: ...
    @property
    def request(self) -> Request: ...
    @property
    def request_id(self) -> bytes: ...
