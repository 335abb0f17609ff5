"""The ModelRoutes of a Model: which requests go to which backends.

One route has the model and as many adapters as fit; further ones have only adapters. An adapter stays in the
route that has it, so that no request finds it in none while routes change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate import api
from headgate.controllers.model import names
from headgate.controllers.model.backends import Backend
from headgate.controllers.model.scope import Child, Scope

MOST_ADAPTERS: Final = 10
MOST_TARGETS: Final = 16
_HEAVIEST: Final = 100


def of_model(scope: Scope, backends: Sequence[Backend]) -> list[Child]:
    """All routes of the Model; none if nothing of it can serve."""
    main = names.shortened(scope.model.metadata.name, names.LONGEST_NAME)
    targets = _targets(scope, backends, leaving=True)
    by_route = _placed(scope, backends, main)
    if not targets:
        return []
    found = []
    for name, adapters in by_route.items():
        rules = [_default(scope, targets)] if name == main else []
        rules += _adapter_rules(scope, backends, adapters, in_main=name == main)
        spec: dict[str, Any] = {"modelName": names.public(scope.model)} if name == main else {}
        if adapters:
            spec["loraAdapters"] = adapters
        spec["rules"] = rules
        found.append(scope.child(api.ModelRoute, name, spec))
    return found


def _default(scope: Scope, targets: list[dict[str, Any]]) -> dict[str, Any]:
    """The rule for the model; with a single backend, it is also that for adapters."""
    match = _match(scope)
    if len(scope.model.spec.backends) > 1:
        match.setdefault("body", {"model": names.public(scope.model)})
    return _rule("default", match, targets)


def _adapter_rules(
    scope: Scope, backends: Sequence[Backend], adapters: Sequence[str], *, in_main: bool
) -> list[dict[str, Any]]:
    """A rule for each adapter, with the backends that have it as targets."""
    if len(scope.model.spec.backends) == 1:
        every = _targets(scope, backends, leaving=True)
        return [] if in_main else [_rule("adapters", _match(scope), every)]
    found = []
    for adapter in adapters:
        having = [each for each in backends if any(own.name == adapter for own in each.adapters)]
        match = {**_match(scope), "body": {"model": adapter}}
        # A former backend may still have it, while no other is ready.
        leaving = not any(each.is_ready(scope.observed.ready) for each in having)
        found.append(_rule(adapter, match, _targets(scope, having, leaving=leaving)))
    return found


def _rule(name: str, match: dict[str, Any], targets: list[dict[str, Any]]) -> dict[str, Any]:
    condition = {"modelMatch": match} if match else {}
    return {"name": name, **condition, "targetModels": targets}


def _match(scope: Scope) -> dict[str, Any]:
    given = scope.model.spec.model_match
    found: dict[str, Any] = msgspec.to_builtins(given) if given is not None else {}
    return found


def _targets(scope: Scope, backends: Sequence[Backend], *, leaving: bool) -> list[dict[str, Any]]:
    """Backends that have ready replicas; all of them if none has any.

    Former backends serve until all others do, with the weight of those that do not yet.
    """
    ready = [each for each in backends if each.is_ready(scope.observed.ready)]
    chosen = ready if any(each.spec.route_weight for each in ready) else list(backends)
    found = [(each.server, each.spec.route_weight) for each in chosen]
    former = _former(scope, backends, ready) if leaving else {}
    if former:
        found = [(each.server, each.spec.route_weight) for each in ready] + list(former.items())
    if len(found) > MOST_TARGETS:
        lost = ", ".join(name for name, _ in found[MOST_TARGETS:])
        told = f"a route has at most {MOST_TARGETS} targets: no requests go to {lost}"
        if told not in {problem.message for problem in scope.problems}:
            scope.report("spec.backends", told)
    return [{"modelServerName": name, "weight": weight} for name, weight in found[:MOST_TARGETS]]


def _former(scope: Scope, backends: Sequence[Backend], ready: Sequence[Backend]) -> dict[str, int]:
    """The weights of ModelServers of which former Pods serve, while not all backends do: their own if they
    stay, and else that of the backends that do not serve yet."""
    model = scope.model
    stay = {names.of_backend(model, each.name): each.route_weight for each in model.spec.backends}
    waiting = [each for each in backends if each not in ready and each.spec.min_replicas]
    if not waiting and len(backends) == len(stay):
        return {}
    former = sorted(set(scope.observed.leaving) - {each.server for each in ready})
    others = max(sum(name not in stay for name in former), 1)
    share = sum(each.spec.route_weight for each in waiting) // others
    return {name: stay.get(name, min(max(share, 1), _HEAVIEST)) for name in former}


def _placed(scope: Scope, backends: Sequence[Backend], main: str) -> dict[str, list[str]]:
    """The adapters of each route, sorted: where they are already, and else where there is room."""
    adapters = sorted({adapter.name for backend in backends for adapter in backend.adapters})
    before = scope.observed.placed
    found: dict[str, list[str]] = {main: []}
    for adapter in adapters:
        name = before.get(adapter)
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
