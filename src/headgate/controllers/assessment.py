"""Computes the status of an object from the related objects only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from headgate import api, routing
from headgate.controllers import conditions, findings, inference_findings, relations
from headgate.controllers.object_index import ObjectIndex
from headgate.controllers.relations import POOLS, InferencePool, Observed

Kind = TypeVar("Kind", bound=Observed)


def status_of(obj: Observed, index: ObjectIndex, now: str) -> api.ObservedStatus:
    """The status of an object; `conditions.formed` converts it to its kind. `now` is RFC 3339.

    The cost grows with the Pods of the pools involved.
    """
    return conditions.observed(conditions.said(obj), _findings(obj, index), obj.metadata.generation, now)


def _findings(obj: Observed, index: ObjectIndex) -> list[conditions.Finding]:
    if isinstance(obj, api.ModelServer):
        return _of_server(obj, index)
    if isinstance(obj, api.ModelRoute):
        return _of_route(obj, index)
    if isinstance(obj, api.InferenceModel):
        return _of_model(obj, index)
    if isinstance(obj, api.InferenceObjective | api.InferenceModelRewrite):
        objects = routing.InferenceObjects(
            pools=index.pools_for(obj),
            objectives=_of([obj], api.InferenceObjective),
            rewrites=_of([obj], api.InferenceModelRewrite),
        )
        return inference_findings.of_addition(obj, routing.translate([], [], [], [], objects))
    return _of_pool(obj, index)


def _of_server(server: api.ModelServer, index: ObjectIndex) -> list[conditions.Finding]:
    pods = index.pods_of(server)
    secrets = index.secrets_of(server)
    return findings.of_server(server, routing.translate([], [server], pods, secrets), pods)


def _of_route(route: api.ModelRoute, index: ObjectIndex) -> list[conditions.Finding]:
    servers = index.servers_of(route)
    pods = {pod.metadata.key: pod for server in servers for pod in index.pods_of(server)}
    secrets = index.secrets_of(route)
    rivals = _of(index.rivals_of(route), api.ModelRoute)  # others never take precedence over it
    return findings.of_route(route, routing.translate([route, *rivals], servers, pods.values(), secrets))


def _of_model(model: api.InferenceModel, index: ObjectIndex) -> list[conditions.Finding]:
    rivals = index.rivals_of(model)
    models = [model, *_of(rivals, api.InferenceModel)]
    objects = routing.InferenceObjects(
        pools=[*_pools(rivals), *_pools_for(models, index)],
        models=models,
    )
    snapshot = routing.translate(_of(rivals, api.ModelRoute), [], [], [], objects)
    return inference_findings.of_model(model, snapshot)


def _of_pool(pool: InferencePool, index: ObjectIndex) -> list[conditions.Finding]:
    rivals, pods, models = index.rivals_of(pool), index.pods_of(pool), index.models_of(pool)
    of_models = (rival for model in models for rival in index.rivals_of(model))
    others = {relations.subject(each): each for each in (*rivals, *models, *of_models)}.values()
    named = _of(others, api.InferenceModel)
    objects = routing.InferenceObjects(pools=[*_pools(rivals), *_pools_for(named, index), pool], models=named)
    secrets = index.secrets_of(pool)
    snapshot = routing.translate(_of(others, api.ModelRoute), [], pods, secrets, objects)
    return inference_findings.of_pool(
        pool,
        snapshot,
        pods,
        models=models,
        picker=index.picker_of(pool),
        shared={str(pod.metadata.key): index.others_selecting(pool, pod) for pod in pods},
    )


def _pools_for(models: Iterable[api.InferenceModel], index: ObjectIndex) -> list[InferencePool]:
    """The pools that the models name: whether one exists decides which model takes precedence."""
    return [pool for model in models for pool in index.pools_for(model)]


def _pools(objects: Iterable[Observed]) -> list[InferencePool]:
    return [obj for obj in objects if isinstance(obj, POOLS)]


def _of(objects: Iterable[Observed], kind: type[Kind]) -> Sequence[Kind]:
    return [obj for obj in objects if isinstance(obj, kind)]
