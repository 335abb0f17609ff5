"""Explains requests to listeners of Gateways: which rule of which HTTPRoute takes them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from headgate import api, cluster, routing
from headgate.api.reference_grants import ReferenceGrant
from headgate.cli.manifests.loading import ManifestErrors, load
from headgate.cli.objects import connecting
from headgate.cli.objects.printing import escaped
from headgate.cli.route import sources
from headgate.gateway.gateway_api import head as heads
from headgate.requests.refusal import Refusal
from headgate.routing import gateway_api

if TYPE_CHECKING:
    from headgate.cli.manifests import Manifest
    from headgate.requests.client import Header
    from headgate.routing.gateway_api import EntryReading, ListenerReading, Reading

MAX_OTHERS = 20
"""Matches that are shown besides the one that takes the request."""
_LIMITS = heads.Limits(head_bytes=1 << 20, headers=1000)
_STORES = {
    api.GatewayClass: "classes",
    api.Gateway: "gateways",
    api.HttpRoute: "routes",
    api.Service: "services",
    api.Secret: "secrets",
    api.Namespace: "namespaces",
    ReferenceGrant: "grants",
}
"""Kinds that routes depend on, and where `gateway_api.Objects` has them."""
Kind = TypeVar("Kind", bound=cluster.KubeObject)


class Asked(msgspec.Struct, frozen=True):
    """The request; header names are lower case."""

    method: str
    host: str
    path: str
    headers: tuple[Header, ...] = ()
    port: int | None = None

    def head(self) -> heads.Head:
        """Raises ClickException for a request that the gateway would reject."""
        lines = [f"{self.method} {self.path} HTTP/1.1".encode(), b"host: " + self.host.encode()]
        lines += [name + b": " + value for name, value in self.headers if name != b"host"]
        found = heads.read(b"\r\n".join(lines) + b"\r\n\r\n", _LIMITS)
        if isinstance(found, Refusal):
            raise click.ClickException(f"the gateway would reject this request: {found.message}")
        return found


def from_server(server: connecting.Server, asked: Asked) -> Reading:
    """Explain from the current objects of an API server."""

    async def fetch(client: cluster.Client) -> Reading:
        objects = gateway_api.Objects()
        kinds = [kind for kind in _STORES if kind is not api.Secret]
        lists = await asyncio.gather(*(_listed(client, kind) for kind in kinds))
        for kind, found in zip(kinds, lists, strict=True):
            getattr(objects, _STORES[kind]).update({each.metadata.key: each for each in found})
        for key in gateway_api.named_secrets(objects.ours(gateway_api.Settings().controller)):
            with contextlib.suppress(cluster.ApiError):  # missing or forbidden: its listener is not served
                objects.secrets[key] = await client.get(api.Secret, key.name, key.namespace)
        pools = (await sources.fetch_objects(client)).snapshot().pools
        return _explained(objects, pools, asked)

    return connecting.run(server, fetch)


async def _listed(client: cluster.Client, kind: type[Any]) -> list[Any]:
    try:
        return list(await client.list(kind, None))
    except (cluster.NotFound, cluster.Forbidden):
        return []


def from_manifests(paths: list[str], asked: Asked) -> Reading:
    """Explain from manifests alone."""
    try:
        read: list[Manifest] = load(paths)
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    objects = gateway_api.Objects()
    for kind, store in _STORES.items():
        found: list[Any] = sources.of_kind(read, kind, None)
        if kind is api.Secret:
            found = [sources.stored_secret(each) for each in found]
        getattr(objects, store).update({each.metadata.key: each for each in found})
    return _explained(objects, sources.of_manifests(read, None).snapshot().pools, asked)


def _explained(
    objects: gateway_api.Objects, pools: Mapping[api.ObjectRef, routing.Pool], asked: Asked
) -> Reading:
    head = asked.head()
    translation = gateway_api.Translator().translate(objects, pools)
    try:
        return gateway_api.explain(translation, head.name, head, asked.port)
    except routing.TooCostlyError as error:
        raise click.ClickException(f"comparing this request with the routes takes {error}") from error


def is_refused(found: Reading) -> bool:
    """Whether no listener would serve the request."""
    return not any(_is_served(each) for each in found.listeners)


def _is_served(listener: ListenerReading) -> bool:
    taken = listener.taken
    if taken is None:
        return False
    is_redirect = any(each.startswith("redirect ") for each in taken.filters)
    return is_redirect or any(each.weight and not each.fault for each in taken.backends)


def as_json(found: Reading) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def as_text(asked: Asked, found: Reading) -> str:
    return "\n".join(escaped(line) for line in _lines(asked, found)) + "\n"


def _lines(asked: Asked, found: Reading) -> Iterator[str]:
    yield f"{asked.method} {asked.path}, host {asked.host}"
    if not found.listeners:
        yield ""
        where = f" on port {asked.port}" if asked.port is not None else ""
        yield f"No Gateway of Headgate's class has a listener{where}."
    for listener in found.listeners:
        yield ""
        yield from _listener(listener)
    if found.absent:
        yield ""
        yield "Without effect:"
        yield from (f"    {each.route}: {each.why}" for each in found.absent[:MAX_OTHERS])
        if len(found.absent) > MAX_OTHERS:
            yield f"    and {len(found.absent) - MAX_OTHERS} more"


def _listener(listener: ListenerReading) -> Iterator[str]:
    where = f"{listener.address or '*'}:{listener.port} ({'HTTPS' if listener.is_https else 'HTTP'})"
    if listener.hostname is None:
        yield f"{where}: no listener serves this host: 404"
        return
    yield f"{where}, listener for {listener.hostname or 'any host'}:"
    others = 0
    for entry in listener.entries:
        if entry.takes:
            yield from _taken(entry)
        elif others < MAX_OTHERS:
            yield f"    {_title(entry)}: {entry.why}"
        others += not entry.takes
    if others > MAX_OTHERS:
        yield f"    and {others - MAX_OTHERS} more matches"
    if listener.taken is None:
        yield "    No rule matches: 404"


def _title(entry: EntryReading) -> str:
    return f"{entry.route} {entry.rule} ({'; '.join(entry.conditions)})"


def _taken(entry: EntryReading) -> Iterator[str]:
    yield f"  > {_title(entry)}"
    yield from (f"        {each}" for each in entry.filters)
    for backend in entry.backends:
        fault = f": 500: {backend.fault}" if backend.fault else ""
        yield f"        weight {backend.weight}, {backend.share:.0%}: {backend.name}{fault}"
    yield from (f"        copy to {each}" for each in entry.mirrors)
    if not entry.backends and not any(each.startswith("redirect ") for each in entry.filters):
        yield "        no backend: 500"
