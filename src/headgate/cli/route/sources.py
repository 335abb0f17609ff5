"""Where an explanation comes from: an API server's objects, manifests, or a running gateway."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
import httpx2
import msgspec

from headgate import api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1
from headgate.cli import manifests
from headgate.cli.manifests.loading import ManifestErrors, load
from headgate.cli.objects import connecting
from headgate.gateway.explaining import View, explain
from headgate.gateway.explanation import Explanation
from headgate.requests.client import Header

# The objects that requests are routed by, read once from an API server or from manifests.
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


async def fetch_objects(client: cluster.Client, namespace: str | None = None) -> Objects:
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


# Pods that a pool selects, but that are no endpoints: why a request cannot go there.
#
# Routing knows ready Pods only; who asks why one of them gets nothing wants to hear of the others too.
MAX_SHOWN = 20
"""Named of each pool."""


def with_absent(
    found: Explanation, pools: Iterable[routing.PoolObject], pods: Iterable[api.Pod]
) -> Explanation:
    """The explanation with the Pods that are missing from its targets."""
    by_name = {routing.name_of(routing.ref_of(pool)): pool for pool in pools}
    every = list(pods)
    targets = tuple(
        msgspec.structs.replace(target, absent=_absent(by_name.get(target.model_server), every))
        for target in found.targets
    )
    return msgspec.structs.replace(found, targets=targets)


def _absent(pool: routing.PoolObject | None, pods: list[api.Pod]) -> tuple[str, ...]:
    if pool is None:
        return ()
    namespace, labels = routing.selector_of(pool)
    found = [
        f"{pod.metadata.key}: {why}"
        for pod in pods
        if pod.metadata.namespace == namespace
        and labels
        and labels.items() <= pod.metadata.labels.items()
        and (why := _why(pod))
    ]
    found.sort()
    more = (f"and {len(found) - MAX_SHOWN} more",) if len(found) > MAX_SHOWN else ()
    return (*found[:MAX_SHOWN], *more)


def _why(pod: api.Pod) -> str:
    """Why a Pod is no endpoint; "" if it is one."""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    status = pod.status
    if pod.ended:
        return f"has ended: {status.phase}"
    condition = next((each for each in status.conditions if each.type == "Ready"), None)
    if condition is None or condition.status != "True":
        message = condition.message if condition is not None else ""
        phase = f" ({status.phase})" if status.phase else ""
        return f"is not ready{phase}{f': {message}' if message else ''}"
    return "" if status.pod_ip else "has no address"


PATIENCE_S = 10.0


class Asked(NamedTuple):
    """The request; names of headers are lower case."""

    path: str
    headers: list[Header]
    body: bytes


def from_server(server: connecting.Server, namespace: str | None, asked: Asked) -> Explanation:
    """By the objects that an API server has now."""

    async def fetch(client: cluster.Client) -> Explanation:
        found = await fetch_objects(client, namespace)
        explanation = explain(View.of_objects(found.snapshot(), knows_endpoints=True), *asked)
        return with_absent(explanation, found.pools, found.pods)

    return connecting.run(server, fetch)


def from_manifests(paths: list[str], namespace: str | None, asked: Asked) -> Explanation:
    """By manifests alone. Endpoints are known only if Pods with a status are among them, as `get -o yaml`
    prints them."""
    try:
        read = load(paths)
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    found = of_manifests(read, namespace)
    view = View.of_objects(found.snapshot(), knows_endpoints=bool(found.pods))
    return with_absent(explain(view, *asked), found.pools, found.pods)


def from_gateway(url: str, asked: Asked) -> Explanation:
    """By a gateway as it is now: its admin port answers."""
    base = url.rstrip("/") if "://" in url else f"http://{url}".rstrip("/")
    try:
        # No header of ours: each that is sent is one of the request that is asked about.
        with httpx2.Client(timeout=PATIENCE_S, trust_env=False) as client:
            client.headers.clear()
            response = client.post(
                f"{base}/debug/explain{asked.path}", content=asked.body, headers=list(asked.headers)
            )
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise click.ClickException(
            f"no answer from the gateway at {base}: {error}\n"
            "--gateway is the address of its admin port, by default http://localhost:8081."
        ) from error
    if response.status_code != 200:
        raise click.ClickException(
            f"{base} answered {response.status_code}: {response.text[:500]}\n"
            "Is it the admin port of a gateway? By default that is http://localhost:8081."
        )
    try:
        return msgspec.json.decode(response.content, type=Explanation)
    except msgspec.DecodeError as error:
        raise click.ClickException(
            f"{base} answered with something else than an explanation: {error}"
        ) from error
