"""The destinations of models whose requests all go to one pool, precomputed once per snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headgate import routing
from headgate.api import ObjectRef

if TYPE_CHECKING:
    from headgate.requests.pool_state import PoolState


class Destination(NamedTuple):
    """The destination of every request of one model, regardless of its other content."""

    match: routing.Match
    target: routing.Target
    pool: PoolState


def destinations(snapshot: routing.Snapshot, pools: Mapping[ObjectRef, PoolState]) -> dict[str, Destination]:
    """Destinations by name of model or adapter. A name has one if the first rule of its first route matches
    all requests and has a single target that exists."""
    names = snapshot.models.keys() | snapshot.adapters.keys()
    found = ((name, _destination(name, snapshot, pools)) for name in names)
    return {name: destination for name, destination in found if destination is not None}


def changed(
    before: Mapping[str, Destination],
    snapshot: routing.Snapshot,
    pools: Mapping[ObjectRef, PoolState],
    difference: routing.Difference,
) -> dict[str, Destination]:
    """Destinations for a new snapshot, derived from those of the previous one."""
    found = dict(before)
    for name in difference.names:
        destination = _destination(name, snapshot, pools)
        if destination is not None:
            found[name] = destination
        else:
            found.pop(name, None)
    if difference.pools:
        for name, known in found.items():
            if known.target.pool in difference.pools:
                found[name] = known._replace(pool=pools[known.target.pool])
    return found


def _destination(
    name: str, snapshot: routing.Snapshot, pools: Mapping[ObjectRef, PoolState]
) -> Destination | None:
    routes, is_adapter = snapshot.models.get(name), False  # models take precedence over adapters
    if routes is None:
        routes, is_adapter = snapshot.adapters.get(name, ()), True
    rule = routes[0].rules[0] if routes and routes[0].rules else None
    if rule is None or rule.pattern is not None or len(rule.targets) != 1:
        return None
    target = rule.targets[0]
    pool = pools.get(target.pool)
    if not target.weight or pool is None:
        return None
    return Destination(routing.Match(routes[0], rule, is_adapter), target, pool)
