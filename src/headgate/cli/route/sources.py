"""Where an explanation comes from: an API server's objects, manifests, or a running gateway."""

from __future__ import annotations

from typing import NamedTuple

import click
import httpx2
import msgspec

from headgate import cluster
from headgate.cli.manifests.loading import ManifestErrors, load
from headgate.cli.objects import connecting
from headgate.cli.route import absent, objects
from headgate.gateway.explaining import View, explain
from headgate.gateway.explanation import Explanation
from headgate.requests.client import Header

PATIENCE_S = 10.0


class Asked(NamedTuple):
    """The request; names of headers are lower case."""

    path: str
    headers: list[Header]
    body: bytes


def from_server(server: connecting.Server, namespace: str | None, asked: Asked) -> Explanation:
    """By the objects that an API server has now."""

    async def fetch(client: cluster.Client) -> Explanation:
        found = await objects.fetch(client, namespace)
        explanation = explain(View.of_objects(found.snapshot(), knows_endpoints=True), *asked)
        return absent.told(explanation, found.pools, found.pods)

    return connecting.run(server, fetch)


def from_manifests(paths: list[str], namespace: str | None, asked: Asked) -> Explanation:
    """By manifests alone. Endpoints are known only if Pods with a status are among them, as `get -o yaml`
    prints them."""
    try:
        read = load(paths)
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    found = objects.of_manifests(read, namespace)
    view = View.of_objects(found.snapshot(), knows_endpoints=bool(found.pods))
    return absent.told(explain(view, *asked), found.pools, found.pods)


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
