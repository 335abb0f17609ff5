"""What a model has to do, as a collector tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from headgate import api
from headgate.planning.load import Load, Missing


class Demand(NamedTuple):
    """Requests for one model in one namespace and class: all its variants share them."""

    namespace: str
    model: str
    service_class: str
    pools: Mapping[api.ObjectRef, float | None] = {}
    """The pools that reach the variants, each with the share of its ready Pods that are theirs; None if it
    is not known."""

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.model}/{self.service_class}"


class Collector(Protocol):
    """Tells the load of a demand."""

    async def collect(self, demand: Demand) -> Load | Missing: ...
