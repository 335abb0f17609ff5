"""The part of the objects that a picker serves: its pools, and the routes to them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate import api, routing
from headgate.api import gie_v1
from headgate.picker.settings import PoolNames
from headgate.routing import Route

SELECTED = "selected"
"""Name of the pool of a label selector."""
_RULE = "all"
_LISTED = 10
"""At most so many pools are listed in a message."""


class Confinement:
    """Confines snapshots to the pools of one picker. Unchanged parts of two snapshots stay the same objects.

    Since the proxy has chosen the pool, a request for a model without a route goes there, if that is allowed.
    """

    def __init__(self, names: PoolNames) -> None:
        self._names = names
        self._of_unknown: dict[api.ObjectRef, Route] = {}

    def wants(self, key: api.ObjectRef) -> bool:
        """Whether a pool is one of the picker's."""
        names = self._names
        return (
            key.kind == self._kind
            and key.namespace == names.namespace
            and (not self.named or key in self.named)
        )

    @property
    def _kind(self) -> str:
        is_old = self._names.group != gie_v1.GROUP
        return routing.INFERENCE_POOL_V1ALPHA1 if is_old else routing.INFERENCE_POOL

    @property
    def named(self) -> tuple[api.ObjectRef, ...]:
        """The pools that must exist."""
        names = (SELECTED,) if self._names.selector else self._names.names
        return tuple(api.ObjectRef(self._kind, self._names.namespace, name) for name in names)

    def missing(self, snapshot: routing.Snapshot) -> str:
        """Names the pools that must exist and do not, and those that do; empty if all exist."""
        lacking = [key for key in self.named if key not in snapshot.pools]
        if not lacking:
            return ""
        there = sorted(key for key in snapshot.pools if key.namespace == self._names.namespace)
        listed = ", ".join(map(str, there[:_LISTED])) + (", ..." if len(there) > _LISTED else "")
        group = f"of group {self._names.group}"
        return f"there is no {', '.join(map(str, lacking))} {group}; the namespace has {listed or 'no pools'}"

    def confined(self, snapshot: routing.Snapshot) -> routing.Snapshot:
        """The snapshot without all other pools, and the routes to them."""
        pools = {key: pool for key, pool in snapshot.pools.items() if self.wants(key)}
        keys = self.named or tuple(sorted(pools))
        models = self._kept(snapshot.models)
        unknown = [route for route in snapshot.unknown if self._leads_here(route)]
        known = {
            target.pool
            for routes in models.values()
            for route in routes
            if route.key.kind == routing.INFERENCE_MODEL
            for rule in route.rules
            for target in rule.targets
        }
        for key in keys:
            if self._names.unknown == "pass" or (self._names.unknown == "auto" and key not in known):
                unknown.append(self._unknown(key))
            elif self._names.unknown == "auto" and key in pools:
                unknown += self._renamed(key, pools[key].rewrites, models)
        return msgspec.structs.replace(
            snapshot,
            models=models,
            adapters=self._kept(snapshot.adapters),
            unknown=tuple(unknown),
            pools=pools,
        )

    def _renamed(
        self, key: api.ObjectRef, rewrites: routing.Rewrites | None, models: dict[str, tuple[Route, ...]]
    ) -> list[Route]:
        """Add the names that the rewrites of a pool replace to `models`.

        Returns the route of all other names, if the rewrites replace these too.
        """
        if rewrites is None:
            return []
        for name in rewrites.named:
            models[name] = (*models.get(name, ()), self._unknown(key))
        return [self._unknown(key)] if rewrites.others is not None else []

    def default(self, snapshot: routing.Snapshot) -> tuple[Route, api.ObjectRef] | None:
        """The route and the pool of requests that name no model."""
        keys = self.named or tuple(sorted(snapshot.pools))
        return (self._unknown(keys[0]), keys[0]) if keys else None

    def _kept(self, routes: Mapping[str, tuple[Route, ...]]) -> dict[str, tuple[Route, ...]]:
        found = {}
        for name, each in routes.items():
            kept = tuple(route for route in each if self._leads_here(route))
            if kept:
                found[name] = each if len(kept) == len(each) else kept
        return found

    def _leads_here(self, route: Route) -> bool:
        """Whether it has a target in one of the pools. A reserved name has targets without weights."""
        return any(self.wants(target.pool) for rule in route.rules for target in rule.targets)

    def _unknown(self, key: api.ObjectRef) -> Route:
        found = self._of_unknown.get(key)
        if found is None:
            rule = routing.Rule(_RULE, None, (routing.Target(key, 1),))
            found = self._of_unknown[key] = Route(
                key=key,
                name=routing.name_of(key),
                model=None,
                takes_unknown=True,
                adapters=(),
                rules=(rule,),
            )
        return found


def selected(names: PoolNames) -> gie_v1.InferencePool:
    """The pool of a label selector, for which there is no object."""
    return gie_v1.InferencePool(
        metadata=api.ObjectMeta(name=SELECTED, namespace=names.namespace),
        spec=gie_v1.InferencePoolSpec(
            selector=gie_v1.LabelSelector(match_labels=names.selector),
            target_ports=[gie_v1.Port(number=port) for port in names.ports],
        ),
    )
