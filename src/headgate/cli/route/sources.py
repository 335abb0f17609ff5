"""Where an explanation comes from: an API server's objects, manifests, or a running gateway."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, NamedTuple, TypeVar

import click
import httpx2
import msgspec

from headgate import api, cluster, routing
from headgate.cli import manifests
from headgate.cli.manifests.loading import ManifestErrors, load
from headgate.cli.objects import connecting
from headgate.cli.route import absent
from headgate.gateway.explaining import View, explain
from headgate.gateway.explanation import Explanation
from headgate.gateway.request import Header

PATIENCE_S = 10.0
Kind = TypeVar("Kind", bound=cluster.KubeObject)


class Asked(NamedTuple):
    """The request; names of headers are lower case."""

    path: str
    headers: list[Header]
    body: bytes


def from_server(server: connecting.Server, namespace: str | None, asked: Asked) -> Explanation:
    """By the objects that an API server has now."""

    async def fetch(client: cluster.Client) -> Explanation:
        routes, servers, pods = await asyncio.gather(
            client.list(api.ModelRoute, namespace),
            client.list(api.ModelServer, namespace),
            client.list(api.Pod, namespace),
        )
        named = {key for server in servers if (key := routing.authorities_of(server)) is not None}
        secrets = await asyncio.gather(*(_secret(client, key) for key in named))
        snapshot = routing.translate(routes, servers, pods, [each for each in secrets if each is not None])
        found = explain(View.of_objects(snapshot, knows_endpoints=True), *asked)
        return absent.told(found, servers, pods)

    return connecting.run(server, fetch)


async def _secret(client: cluster.Client, key: api.ObjectKey) -> api.Secret | None:
    try:
        return await client.get(api.Secret, key.name, key.namespace)
    except cluster.ApiError:
        return None  # it is not there or may not be read, which the translation tells


def from_manifests(paths: list[str], namespace: str | None, asked: Asked) -> Explanation:
    """By manifests alone. Endpoints are known only if Pods with a status are among them, as `get -o yaml`
    prints them."""
    try:
        read = load(paths)
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    routes = _of_kind(read, api.ModelRoute, namespace)
    servers = _of_kind(read, api.ModelServer, namespace)
    pods = _of_kind(read, api.Pod, namespace)
    secrets = [_stored(secret) for secret in _of_kind(read, api.Secret, namespace)]
    snapshot = routing.translate(routes, servers, pods, secrets)
    return absent.told(explain(View.of_objects(snapshot, knows_endpoints=bool(pods)), *asked), servers, pods)


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
