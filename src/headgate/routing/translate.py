"""From the objects of the dialects to one Snapshot; run once per change, never per request.

What cannot be translated is left out and becomes a Problem: one bad object never stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headgate import api
from headgate.routing import (
    inference_models,
    inference_pools,
    model_routes,
    model_servers,
    objectives,
    phases,
    tls,
)
from headgate.routing.endpoints import ReadyPods
from headgate.routing.inference_pools import InferencePool
from headgate.routing.problems import Problem, Reporter
from headgate.routing.snapshot import MODEL_ROUTE, Pool, Route, Snapshot

UNRESOLVED = frozenset(
    {
        model_routes.MODEL_SERVER_NOT_FOUND,
        inference_models.REF_NOT_FOUND,
        tls.SECRET_NOT_FOUND,
        tls.SECRET_KEY_NOT_FOUND,
        tls.INVALID_CERTIFICATE,
        phases.NO_ROLE,
        phases.NO_GROUP,
        phases.INCOMPLETE_GROUP,
    }
)
"""Reasons of problems that are about the objects named or selected, not about the one that does so."""


class InferenceObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of the Gateway API Inference Extension; pools of both versions."""

    pools: Iterable[InferencePool] = ()
    models: Iterable[api.InferenceModel] = ()
    objectives: Iterable[api.InferenceObjective] = ()


def translate(
    routes: Iterable[api.ModelRoute],
    servers: Iterable[api.ModelServer],
    pods: Iterable[api.Pod],
    secrets: Iterable[api.Secret] = (),
    inference: InferenceObjects = InferenceObjects(),  # noqa: B008 - it is frozen, and empty
) -> Snapshot:
    """Translates all objects; of Secrets those that `authorities_of` a pool names.

    Order of the arguments' items does not matter. For one name, ModelRoutes go before InferenceModels, and
    these before the annotations of pools.
    """
    problems: list[Problem] = []
    ordered_servers = sorted(servers, key=lambda server: server.metadata.key)
    ordered_pools = sorted(inference.pools, key=lambda pool: pool.metadata.age_order)
    selectors = [*map(model_servers.selector, ordered_servers), *map(inference_pools.selector, ordered_pools)]
    ready = ReadyPods(selectors, pods)
    secret_of = {secret.metadata.key: secret for secret in secrets}
    pools = _of_servers(ordered_servers, ready, secret_of, problems)
    pools |= _of_inference(ordered_pools, inference.objectives, ready, secret_of, problems)
    translated = []
    for source in sorted(routes, key=lambda route: route.metadata.age_order):
        ref = api.ObjectRef(MODEL_ROUTE, *source.metadata.key)
        translated.append(model_routes.route(source, pools.keys(), Reporter(ref, problems)))
    further = inference_models.routes(inference.models, pools.keys(), problems)
    further += [route for pool in ordered_pools for route in inference_pools.routes(pool)]
    models = _by_name((route.model, route) for route in translated if route.model)
    adapters = _by_name((adapter, route) for route in translated for adapter in route.adapters)
    for route in further:
        _add_last(route, models, adapters)
    return Snapshot(
        models=models,
        adapters=adapters,
        unknown=tuple(route for route in further if route.takes_unknown),
        pools=pools,
        problems=tuple(problems),
    )


def _of_servers(
    servers: list[api.ModelServer],
    ready: ReadyPods,
    secrets: Mapping[api.ObjectKey, api.Secret],
    problems: list[Problem],
) -> dict[api.ObjectRef, Pool]:
    refs = [model_servers.ref(server) for server in servers]
    return {
        ref: model_servers.pool(server, ready, secrets, Reporter(ref, problems))
        for ref, server in zip(refs, servers, strict=True)
    }


def _of_inference(
    pools: list[InferencePool],
    about: Iterable[api.InferenceObjective],
    ready: ReadyPods,
    secrets: Mapping[api.ObjectKey, api.Secret],
    problems: list[Problem],
) -> dict[api.ObjectRef, Pool]:
    refs = [inference_pools.ref(pool) for pool in pools]
    priorities = objectives.priorities(about, refs, problems)
    return {
        ref: inference_pools.pool(pool, ready, secrets, priorities.get(ref, {}), Reporter(ref, problems))
        for ref, pool in zip(refs, pools, strict=True)
    }


def _by_name(named: Iterable[tuple[str, Route]]) -> dict[str, tuple[Route, ...]]:
    routes: dict[str, tuple[Route, ...]] = {}
    for name, route in named:
        routes[name] = (*routes.get(name, ()), route)
    return routes


def _add_last(
    route: Route, models: dict[str, tuple[Route, ...]], adapters: dict[str, tuple[Route, ...]]
) -> None:
    """After those that have its name already, which may know it as an adapter."""
    if route.model is not None:
        named = adapters if route.model in adapters and route.model not in models else models
        named[route.model] = (*named.get(route.model, ()), route)
