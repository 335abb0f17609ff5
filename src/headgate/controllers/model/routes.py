"""The ModelRoutes of a Model: which requests go to which backends.

One route has the model and as many adapters as fit; further ones have only adapters. An adapter stays in the
route that has it, so that no request finds it in none while routes change. Nor does a backend that cannot be
made as it is written lose its requests: its Pods of before still serve.

The name of the model in a route cannot be changed. When it has to, another route stands in until the former
one is gone and made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headgate import api
from headgate.api.kthena_registry import ModelBackend
from headgate.controllers.model import names
from headgate.controllers.model.backends import Backend
from headgate.controllers.model.scope import Child, Scope
from headgate.engines import known
from headgate.engines.launch import Adapters

MOST_ADAPTERS: Final = 10
MOST_TARGETS: Final = 16
_HEAVIEST: Final = 100


@dataclass(frozen=True)
class _Destination:
    """A backend as requests see it."""

    server: str
    weight: int
    adapters: frozenset[str]
    serves: bool
    """Whether Pods of it, or former ones of its ModelServer, serve."""
    is_made: bool
    comes: bool
    """Whether it does not serve yet, and will."""


def of_model(scope: Scope, backends: Sequence[Backend]) -> list[Child]:
    """All routes of the Model; `backends` are those that are made."""
    made = {backend.spec.name: backend for backend in backends}
    every = [_destination(scope, each, made.get(each.name)) for each in scope.model.spec.backends]
    if not scope.observed.called and not any(each.is_made or each.serves for each in every):
        return []  # nothing has ever served
    main = names.shortened(scope.model.metadata.name, names.LONGEST_NAME)
    found = []
    is_outdated = scope.observed.called.get(main, names.public(scope.model)) != names.public(scope.model)
    for name, adapters in _placed(scope, every, main).items():
        rules = [_default(scope, every)] if name == main else []
        rules += _adapter_rules(scope, every, adapters, in_main=name == main)
        spec: dict[str, Any] = {"modelName": names.public(scope.model)} if name == main else {}
        if adapters:
            spec["loraAdapters"] = adapters
        spec["rules"] = rules
        stored = names.stand_in_route(scope.model) if name == main and is_outdated else name
        found.append(scope.child(api.ModelRoute, stored, spec))
    return found


def _destination(scope: Scope, spec: ModelBackend, backend: Backend | None) -> _Destination:
    server = names.of_backend(scope.model, spec.name)
    stays = server in scope.observed.leaving
    if backend is None:
        never = known.launcher(spec.type).adapters({}) is Adapters.NEVER
        adapters = frozenset() if never else frozenset(adapter.name for adapter in spec.lora_adapters)
        return _Destination(
            server, spec.route_weight, adapters - {names.served(scope.model)}, stays, False, False
        )
    serves = stays or backend.is_ready(scope.observed.ready)
    adapters = frozenset(adapter.name for adapter in backend.adapters)
    comes = not serves and spec.min_replicas > 0
    return _Destination(server, spec.route_weight, adapters, serves, True, comes)


def _default(scope: Scope, every: Sequence[_Destination]) -> dict[str, Any]:
    """The rule for the model; with a single backend, it is also that for adapters."""
    match = _match(scope)
    if len(scope.model.spec.backends) > 1:
        match.setdefault("body", {"model": names.public(scope.model)})
    return _rule("default", match, _targets(scope, every, _former(scope, every)))


def _adapter_rules(
    scope: Scope, every: Sequence[_Destination], adapters: Sequence[str], *, in_main: bool
) -> list[dict[str, Any]]:
    """A rule for each adapter, with the backends that have it as targets."""
    former = _former(scope, every)
    if len(every) == 1:
        return [] if in_main else [_rule("adapters", _match(scope), _targets(scope, every, former))]
    found = []
    for adapter in adapters:
        having = [each for each in every if adapter in each.adapters]
        # A former backend may still have it, while no other serves.
        with_former = {} if any(each.serves for each in having) else former
        match = {**_match(scope), "body": {"model": adapter}}
        found.append(_rule(adapter, match, _targets(scope, having, with_former)))
    return found


def _rule(name: str, match: dict[str, Any], targets: list[dict[str, Any]]) -> dict[str, Any]:
    condition = {"modelMatch": match} if match else {}
    return {"name": name, **condition, "targetModels": targets}


def _match(scope: Scope) -> dict[str, Any]:
    given = scope.model.spec.model_match
    found: dict[str, Any] = msgspec.to_builtins(given) if given is not None else {}
    return found


def _targets(scope: Scope, among: Sequence[_Destination], former: dict[str, int]) -> list[dict[str, Any]]:
    """Those that serve; all that are made if none does. One without weight takes requests while none of those
    with weight serves."""
    chosen = [each for each in among if each.serves]
    made = any(each.is_made for each in among)
    weights = {each.server: each.weight for each in chosen}
    if not former and not any(weights.values()):
        if chosen and any(each.weight for each in among):
            weights = dict.fromkeys(weights, 1)
        else:
            weights = {each.server: each.weight for each in among if each.is_made or not made}
    found = [*weights.items(), *former.items()]
    if len(found) > MOST_TARGETS:
        lost = ", ".join(name for name, _ in found[MOST_TARGETS:])
        told = f"a route has at most {MOST_TARGETS} targets: no requests go to {lost}"
        if told not in {problem.message for problem in scope.problems}:
            scope.report("spec.backends", told)
    return [{"modelServerName": name, "weight": weight} for name, weight in found[:MOST_TARGETS]]


def _former(scope: Scope, every: Sequence[_Destination]) -> dict[str, int]:
    """The ModelServers of former backends, which serve until all others do, with the weight of those that do
    not yet."""
    waiting = [each for each in every if each.comes]
    if not waiting and all(each.is_made for each in every):
        return {}
    former = sorted(set(scope.observed.leaving) - {each.server for each in every})
    share = sum(each.weight for each in waiting) // max(len(former), 1)
    return dict.fromkeys(former, min(max(share, 1), _HEAVIEST))


def _placed(scope: Scope, every: Sequence[_Destination], main: str) -> dict[str, list[str]]:
    """The adapters of each route, sorted: where they are already, and else where there is room."""
    adapters = sorted(set().union(*(each.adapters for each in every)))
    before = scope.observed.placed
    found: dict[str, list[str]] = {main: []}
    for adapter in adapters:
        name = before.get(adapter)
        if scope.observed.called.get(name or ""):
            name = main  # or the route that stands in for it
        if name is not None and len(found.setdefault(name, [])) < MOST_ADAPTERS:
            found[name].append(adapter)
    left = [adapter for adapter in adapters if not any(adapter in placed for placed in found.values())]
    index = 0
    while left:
        name = names.shortened(f"{scope.model.metadata.name}-adapters-{index}", names.LONGEST_NAME)
        placed = found.setdefault(name if index else main, [])
        room = MOST_ADAPTERS - len(placed)
        placed += left[:room]
        left = left[room:]
        index += 1
    return {name: sorted(placed) for name, placed in found.items() if placed or name == main}
