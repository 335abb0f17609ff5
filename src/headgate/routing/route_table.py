"""Routes by name, and problems by object, each in order.

A change costs in proportion to the names and objects that it concerns; thousands of others are not sorted
again.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from headgate import api
from headgate.routing.problems import Problem
from headgate.routing.snapshot import Route

Order = tuple[str | int, ...]
"""A sort key, unique within one list."""
Item = TypeVar("Item")


class Ordered(Generic[Item]):
    """Items in order of their keys."""

    __slots__ = ("_items", "_orders")

    def __init__(self) -> None:
        self._orders: list[Order] = []
        self._items: list[Item] = []

    def __len__(self) -> int:
        return len(self._items)

    def put(self, order: Order, item: Item) -> None:
        """Insert the item, or replace the one with this key."""
        place = bisect_left(self._orders, order)
        if place < len(self._orders) and self._orders[place] == order:
            self._items[place] = item
        else:
            self._orders.insert(place, order)
            self._items.insert(place, item)

    def take_out(self, order: Order) -> None:
        """Remove the item with this key, which must exist."""
        place = bisect_left(self._orders, order)
        assert self._orders[place] == order
        del self._orders[place], self._items[place]

    @property
    def first(self) -> Item:
        return self._items[0]

    def all(self) -> tuple[Item, ...]:
        return tuple(self._items)

    def foremost(self, most: int) -> list[Item]:
        """The first `most` items."""
        return self._items[:most]


class Filed(NamedTuple):
    """The routes of one object, and their sort key among those for the same name."""

    order: Order
    routes: tuple[Route, ...]


class RouteTable:
    """The routes for each name, in order.

    ModelRoutes come first, oldest first; then the routes of InferenceModels, then those of pools.
    """

    def __init__(self) -> None:
        self._filed: dict[api.ObjectRef, Filed] = {}
        self._models: dict[str, Ordered[Route]] = {}
        """Routes of ModelRoutes, by model."""
        self._adapters: dict[str, Ordered[Route]] = {}
        """Routes of ModelRoutes, by adapter."""
        self._further: dict[str, Ordered[Route]] = {}
        """Routes of other kinds, by model."""
        self._unknown: Ordered[Route] = Ordered()
        self._changed: set[str] = set()
        self.models: Mapping[str, tuple[Route, ...]] = {}
        """In the form of snapshots; never modified, only replaced."""
        self.adapters: Mapping[str, tuple[Route, ...]] = {}
        self.unknown: tuple[Route, ...] = ()

    def put(self, key: api.ObjectRef, order: Order, routes: tuple[Route, ...], *, goes_first: bool) -> None:
        """Replace the routes of one object. `goes_first`: it is a ModelRoute, whose routes precede all
        others, and may have adapters."""
        before = self._filed.pop(key, None)
        if before is not None:
            for route in before.routes:
                self._file(before.order, route, goes_first=goes_first, add=False)
        if routes:
            self._filed[key] = Filed(order, routes)
            for route in routes:
                self._file(order, route, goes_first=goes_first, add=True)

    def _file(self, order: Order, route: Route, *, goes_first: bool, add: bool) -> None:
        if route.takes_unknown:
            self._unknown.put(order, route) if add else self._unknown.take_out(order)
            self.unknown = self._unknown.all()
        if route.model is not None:
            self._under(self._models if goes_first else self._further, route.model, order, route, add=add)
        for adapter in dict.fromkeys(route.adapters):
            self._under(self._adapters, adapter, order, route, add=add)

    def _under(
        self, index: dict[str, Ordered[Route]], name: str, order: Order, route: Route, *, add: bool
    ) -> None:
        self._changed.add(name)
        if add:
            index.setdefault(name, Ordered()).put(order, route)
            return
        named = index[name]
        named.take_out(order)
        if not len(named):
            del index[name]

    def settle(self) -> frozenset[str]:
        """Apply the changes to copies of `models` and `adapters`; returns the names that changed."""
        if not self._changed:
            return frozenset()
        names = frozenset(self._changed)
        models, adapters = dict(self.models), dict(self.adapters)
        for name in self._changed:
            own, adapted, further = (
                index[name].all() if name in index else ()
                for index in (self._models, self._adapters, self._further)
            )
            # Routes of other kinds follow the ones that have the name already, possibly as an adapter.
            is_adapter = bool(adapted) and not own
            _set(models, name, own if is_adapter else own + further)
            _set(adapters, name, adapted + further if is_adapter else adapted)
        self._changed.clear()
        self.models, self.adapters = models, adapters
        return names


def _set(index: dict[str, tuple[Route, ...]], name: str, routes: tuple[Route, ...]) -> None:
    """Keep the existing tuple if it has the same routes, so that it is not mistaken for a change."""
    before = index.get(name, ())
    if not routes:
        index.pop(name, None)
    elif len(before) != len(routes) or not all(map(operator.is_, before, routes)):
        index[name] = routes


class ProblemList:
    """The problems of all objects, in the order of the objects."""

    def __init__(self) -> None:
        self._of: dict[api.ObjectRef, tuple[Order, tuple[Problem, ...]]] = {}
        self._ordered: Ordered[tuple[Problem, ...]] = Ordered()
        self._all: tuple[Problem, ...] | None = ()

    def put(self, key: api.ObjectRef, order: Order, problems: Iterable[Problem]) -> None:
        """Replace the problems of one object."""
        new = (order, tuple(problems))
        before = self._of.pop(key, (order, ()))
        if new[1]:
            self._of[key] = new
        if before == new:
            return
        self._all = None
        if before[1]:
            self._ordered.take_out(before[0])
        if new[1]:
            self._ordered.put(*new)

    def all(self) -> tuple[Problem, ...]:
        if self._all is None:
            self._all = tuple(itertools.chain.from_iterable(self._ordered.all()))
        return self._all
