"""Sources of an explanation: an API server, manifests, or a running gateway."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
import httpx2
import msgspec

from headgate import admin_token, api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1
from headgate.cli import machine_state, manifests
from headgate.cli.manifests.loading import ManifestErrors, load
from headgate.cli.objects import connecting
from headgate.dataplane.explaining import Explanation
from headgate.gateway.explaining import explain, view_of_objects
from headgate.requests.client import Header
from headgate.standalone.stored import with_status

# Routing objects, read once from an API server or from manifests.
Kind = TypeVar("Kind", bound=cluster.KubeObject)


class Objects(NamedTuple):
    """`secrets`: only those used to verify endpoints."""

    routes: Sequence[api.ModelRoute]
    servers: Sequence[api.ModelServer]
    inference: routing.InferenceObjects
    pods: Sequence[api.Pod]
    secrets: Sequence[api.Secret] = ()

    @property
    def pools(self) -> list[routing.PoolObject]:
        return [*self.servers, *self.inference.pools]

    def snapshot(self) -> routing.Snapshot:
        """The snapshot as a gateway has it."""
        return routing.translate(self.routes, self.servers, self.pods, self.secrets, self.inference)


async def fetch_objects(client: cluster.Client, namespace: str | None = None) -> Objects:
    """Current objects of the server; kinds that it lacks or may not list are empty."""
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
    pools, old_pools, models, objectives, rewrites = await asyncio.gather(
        _listed(client, gie_v1.InferencePool, namespace),
        _listed(client, gie_v1alpha1.InferencePool, namespace),
        _listed(client, api.InferenceModel, namespace),
        _listed(client, api.InferenceObjective, namespace),
        _listed(client, api.InferenceModelRewrite, namespace),
    )
    return routing.InferenceObjects(
        pools=[*pools, *old_pools], models=models, objectives=objectives, rewrites=rewrites
    )


async def _listed(client: cluster.Client, kind: type[Kind], namespace: str | None) -> Sequence[Kind]:
    try:
        return await client.list(kind, namespace)
    except (cluster.NotFound, cluster.Forbidden):
        return []


async def _secret(client: cluster.Client, key: api.ObjectKey) -> api.Secret | None:
    try:
        return await client.get(api.Secret, key.name, key.namespace)
    except cluster.ApiError:
        return None  # missing or forbidden, which the translation reports


def of_manifests(read: list[manifests.Manifest], namespace: str | None) -> Objects:
    """Objects of the manifests, as an API server would store them. Raises ClickException."""

    def of(kind: type[Kind]) -> list[Kind]:
        return of_kind(read, kind, namespace)

    inference = routing.InferenceObjects(
        pools=[*of(gie_v1.InferencePool), *of(gie_v1alpha1.InferencePool)],
        models=of(api.InferenceModel),
        objectives=of(api.InferenceObjective),
        rewrites=of(api.InferenceModelRewrite),
    )
    secrets = [stored_secret(secret) for secret in of(api.Secret)]
    return Objects(of(api.ModelRoute), of(api.ModelServer), inference, of(api.Pod), secrets)


def of_kind(read: list[manifests.Manifest], kind: type[Kind], namespace: str | None) -> list[Kind]:
    """The objects of a kind among manifests. Raises ClickException."""
    resource = kind.resource
    found = []
    for manifest in read:
        content = manifest.content
        if (content.get("apiVersion"), manifest.kind) == (resource.api_version, resource.kind):
            obj = _converted(manifest, kind)
            if namespace is None or obj.metadata.namespace == namespace:
                found.append(obj)
    return found


def stored_secret(secret: api.Secret) -> api.Secret:
    """The Secret as an API server stores it, with everything in `data`."""
    texts = {key: base64.b64encode(text.encode()).decode() for key, text in secret.string_data.items()}
    return msgspec.structs.replace(secret, data=secret.data | texts, string_data={})


def _converted(manifest: manifests.Manifest, kind: type[Kind]) -> Kind:
    content: dict[str, Any] = manifest.content
    metadata = {"namespace": "default", **content["metadata"]}
    try:
        return msgspec.convert({**content, "metadata": metadata}, kind)
    except msgspec.ValidationError as error:
        raise click.ClickException(
            f"{manifest.source}: {kind.resource.kind} {metadata.get('name')}: {error}; `headgate "
            "validate` shows details"
        ) from error


# Pods that a pool selects but that are not endpoints, with the reason.
#
# Routing only knows ready Pods; an explanation should also say why the others get no requests.
MAX_SHOWN = 20
"""Shown for each pool."""


def with_absent(
    found: Explanation, pools: Iterable[routing.PoolObject], pods: Iterable[api.Pod]
) -> Explanation:
    """Add the Pods missing from its targets to the explanation."""
    by_name = {routing.name_of(routing.ref_of(pool)): pool for pool in pools}
    every = list(pods)
    targets = tuple(
        msgspec.structs.replace(target, absent=absent_pods(by_name.get(target.model_server), every))
        for target in found.targets
    )
    return msgspec.structs.replace(found, targets=targets)


def absent_pods(pool: routing.PoolObject | None, pods: list[api.Pod]) -> tuple[str, ...]:
    """The Pods that a pool selects and that are not endpoints, each with the reason."""
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
    """Why a Pod is not an endpoint; "" if it is one."""
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
    """The request; header names are lower case."""

    path: str
    headers: list[Header]
    body: bytes


def from_server(server: connecting.Server, namespace: str | None, asked: Asked) -> Explanation:
    """Explain from the current objects of an API server."""

    async def fetch(client: cluster.Client) -> Explanation:
        found = await fetch_objects(client, namespace)
        explanation = explain(view_of_objects(found.snapshot(), knows_endpoints=True), *asked)
        return with_absent(explanation, found.pools, found.pods)

    return connecting.run(server, fetch)


def from_manifests(paths: list[str], namespace: str | None, asked: Asked) -> Explanation:
    """Explain from manifests alone. Endpoints are known only from Pods with a status (`get -o yaml`) or an
    address, as in the files of a gateway."""
    try:
        read = load(paths)
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    found = of_manifests([_served(each) for each in read], namespace)
    view = view_of_objects(found.snapshot(), knows_endpoints=bool(found.pods))
    return with_absent(explain(view, *asked), found.pools, found.pods)


def _served(manifest: manifests.Manifest) -> manifests.Manifest:
    """As a gateway reads it from a file: a Pod with an address and without a status is ready."""
    if manifest.kind != "Pod" or manifest.content.get("status"):
        return manifest
    pod = with_status(manifest.content)
    return dataclasses.replace(manifest, content=pod) if pod["status"].get("podIP") else manifest


def _own_headers() -> list[Header]:
    """The credential for the admin page, which takes it out again."""
    return [(name.encode(), value.encode()) for name, value in admin_token.headers().items()]


def from_gateway(url: str, asked: Asked) -> Explanation:
    """Explain from the current state of a running gateway, through its admin port."""
    base = url.rstrip("/") if "://" in url else f"http://{url}".rstrip("/")
    try:
        # Send none of our own headers: every header is taken as part of the request to explain.
        with httpx2.Client(timeout=PATIENCE_S, trust_env=False) as client:
            client.headers.clear()
            response = client.post(
                f"{base}/debug/explain{asked.path}",
                content=asked.body,
                headers=_own_headers() + list(asked.headers),
            )
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise click.ClickException(
            f"no response from the gateway at {base}: {error}\n"
            "--gateway is the address of its admin port, by default http://localhost:8081."
        ) from error
    if response.status_code != 200:
        raise click.ClickException(
            f"{base} returned {response.status_code}: {response.text[:500]}\n"
            f"{admin_token.hint(response.status_code, machine_state.DEFAULT_GATEWAY)}"
        )
    try:
        return msgspec.json.decode(response.content, type=Explanation)
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{base} returned no valid explanation: {error}") from error
