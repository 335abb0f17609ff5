"""What policies ask of the endpoints' caches; a fleet.prefix.PrefixIndex, or what stands for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.fleet import EndpointState


class Prefixes(Protocol):
    """What is believed of the endpoints' caches."""

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        """Of each endpoint, how many blocks it holds from the front."""
        ...

    def add(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        """An endpoint is about to hold these blocks."""
        ...
