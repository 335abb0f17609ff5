"""The interface of a prefix index, such as fleet.prefix.PrefixIndex, for policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.fleet import EndpointState


class Prefixes(Protocol):
    """What the endpoints' caches are believed to hold."""

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        """For each endpoint, how many leading blocks it holds."""
        ...

    def add(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        """Record that an endpoint will hold these blocks."""
        ...
