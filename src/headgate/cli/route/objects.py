"""The objects that requests are routed by, read once from an API server or from manifests."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from headgate import api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1
from headgate.cli import manifests

Kind = TypeVar("Kind", bound=cluster.KubeObject)


class Objects(NamedTuple):
    """Of Secrets, those that verify endpoints."""

    routes: Sequence[api.ModelRoute]
    servers: Sequence[api.ModelServer]
    inference: routing.InferenceObjects
    pods: Sequence[api.Pod]
    secrets: Sequence[api.Secret] = ()

    @property
    def pools(self) -> list[routing.PoolObject]:
        return [*self.servers, *self.inference.pools]

    def snapshot(self) -> routing.Snapshot:
        """As a gateway has them."""
        return routing.translate(self.routes, self.servers, self.pods, self.secrets, self.inference)


async def fetch(client: cluster.Client, namespace: str | None = None) -> Objects:
    """What the server has now; of kinds that it lacks, or may not show, nothing."""
    routes, servers, pods, inference = await asyncio.gather(
        _listed(client, api.ModelRoute, namespace),
        _listed(client, api.ModelServer, namespace),
        client.list(api.Pod, namespace),
        _inference(client, namespace),
    )
    pools = [*servers, *inference.pools]
    named = {key for pool in pools if (key := routing.authorities_of(pool)) is not None}
    secrets = await asyncio.gather(*(_secret(client, key) for key in named))
    return Objects(routes, servers, inference, pods, [each for each in secrets if each is not None])


async def _inference(client: cluster.Client, namespace: str | None) -> routing.InferenceObjects:
    pools, old_pools, models, objectives = await asyncio.gather(
        _listed(client, gie_v1.InferencePool, namespace),
        _listed(client, gie_v1alpha1.InferencePool, namespace),
        _listed(client, api.InferenceModel, namespace),
        _listed(client, api.InferenceObjective, namespace),
    )
    return routing.InferenceObjects(pools=[*pools, *old_pools], models=models, objectives=objectives)


async def _listed(client: cluster.Client, kind: type[Kind], namespace: str | None) -> Sequence[Kind]:
    try:
        return await client.list(kind, namespace)
    except (cluster.NotFound, cluster.Forbidden):
        return []


async def _secret(client: cluster.Client, key: api.ObjectKey) -> api.Secret | None:
    try:
        return await client.get(api.Secret, key.name, key.namespace)
    except cluster.ApiError:
        return None  # it is not there or may not be read, which the translation tells


def of_manifests(read: list[manifests.Manifest], namespace: str | None) -> Objects:
    """What the manifests have, as an API server would store it. Raises ClickException."""

    def of(kind: type[Kind]) -> list[Kind]:
        return _of_kind(read, kind, namespace)

    inference = routing.InferenceObjects(
        pools=[*of(gie_v1.InferencePool), *of(gie_v1alpha1.InferencePool)],
        models=of(api.InferenceModel),
        objectives=of(api.InferenceObjective),
    )
    secrets = [_stored(secret) for secret in of(api.Secret)]
    return Objects(of(api.ModelRoute), of(api.ModelServer), inference, of(api.Pod), secrets)


def _of_kind(read: list[manifests.Manifest], kind: type[Kind], namespace: str | None) -> list[Kind]:
    resource = kind.resource
    found = []
    for manifest in read:
        content = manifest.content
        if (content.get("apiVersion"), manifest.kind) == (resource.api_version, resource.kind):
            obj = _converted(manifest, kind)
            if namespace is None or obj.metadata.namespace == namespace:
                found.append(obj)
    return found


def _stored(secret: api.Secret) -> api.Secret:
    """As an API server would store it, with all in `data`."""
    texts = {key: base64.b64encode(text.encode()).decode() for key, text in secret.string_data.items()}
    return msgspec.structs.replace(secret, data=secret.data | texts, string_data={})


def _converted(manifest: manifests.Manifest, kind: type[Kind]) -> Kind:
    content: dict[str, Any] = manifest.content
    metadata = {"namespace": "default", **content["metadata"]}
    try:
        return msgspec.convert({**content, "metadata": metadata}, kind)
    except msgspec.ValidationError as error:
        raise click.ClickException(
            f"{manifest.source}: {kind.resource.kind} {metadata.get('name')}: {error}; "
            "`headgate validate` tells more"
        ) from error
