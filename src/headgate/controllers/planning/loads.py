"""Whose requests are planned for together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate import api
from headgate.planning.assembling import Group


class Demand(NamedTuple):
    """Requests for one model in one namespace: all its variants share them."""

    model: str
    namespace: str
    pools: Mapping[api.ObjectRef, float | None] = {}
    """The pools that reach the variants, each with the share of its ready Pods that are theirs; None if it
    is not known."""
    replicas: int = 0
    """Those that all variants have to have."""
    start_s: float = 0.0
    """How long a new one takes to be ready; 0: none was seen."""

    @property
    def group(self) -> Group:
        return self.model, self.namespace
