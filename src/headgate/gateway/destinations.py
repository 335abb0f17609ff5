"""Where all requests of a model go: worked out once for a snapshot, as most leave nothing to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headgate import routing
from headgate.api import ObjectRef

if TYPE_CHECKING:
    from headgate.gateway.pool_state import PoolState


class Destination(NamedTuple):
    """Where every request of one model goes, whatever else is in it."""

    match: routing.Match
    target: routing.Target
    pool: PoolState


def destinations(snapshot: routing.Snapshot, pools: Mapping[ObjectRef, PoolState]) -> dict[str, Destination]:
    """Those of models and adapters, by name, whose first route has a first rule for all requests, with one
    target that exists."""
    found: dict[str, Destination] = {}
    for is_adapter, named in ((True, snapshot.adapters), (False, snapshot.models)):
        for name, routes in named.items():
            found.pop(name, None)  # a model comes before an adapter of its name
            rule = routes[0].rules[0] if routes and routes[0].rules else None
            if rule is None or rule.pattern is not None or len(rule.targets) != 1:
                continue
            target = rule.targets[0]
            pool = pools.get(target.pool)
            if target.weight and pool is not None:
                found[name] = Destination(routing.Match(routes[0], rule, is_adapter), target, pool)
    return found
