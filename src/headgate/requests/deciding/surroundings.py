"""What a decision depends on besides its request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from headgate import routing
from headgate.api import ObjectRef
from headgate.fleet import LearnedSizes
from headgate.requests import paths
from headgate.requests.destinations import Destination
from headgate.requests.providers import Providers

if TYPE_CHECKING:
    from headgate.requests.pool_state import PoolState


class Turns(Protocol):
    """Returns the next target of a rule's weighted split. An implementation may peek without advancing it."""

    def next(self, route: ObjectRef, rule: routing.Rule) -> routing.Target | None: ...


class Surroundings(Protocol):
    """What a decision depends on besides the request: a DataPlane, or a hypothetical one."""

    @property
    def snapshot(self) -> routing.Snapshot: ...
    @property
    def pools(self) -> Mapping[ObjectRef, PoolState]: ...
    @property
    def destinations(self) -> Mapping[str, Destination]:
        """The destination of each model whose requests all go to one pool; other models need a match per
        request."""
        ...

    @property
    def providers(self) -> Providers: ...
    @property
    def splits(self) -> Turns: ...
    @property
    def sizes(self) -> LearnedSizes: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def paths(self) -> paths.Paths: ...
    @property
    def believes_objectives(self) -> bool:
        """Whether every client may name an objective, not only trusted ones."""
        ...
