"""Shell completion of kinds, names and namespaces from the server, within a short timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click
import msgspec

from headgate import api, cluster
from headgate.cli import machine_state
from headgate.cli.objects import served
from headgate.cli.objects.connecting import Server

WITHIN_S = 2.0
"""After this, completion offers only what is known without the server."""
_MAX_NAMES = 500


class _Meta(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct):
    metadata: _Meta


class _List(msgspec.Struct):
    items: list[_Item] = []


def complete_words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete KIND first, then names of its objects; also KIND/NAME."""
    words = context.params.get(parameter.name or "") or ()
    if words and "/" not in words[0]:
        names = _names(context, words[0])
        return [name for name in names if name.startswith(incomplete) and name not in words[1:]]
    kind, slash, name = incomplete.partition("/")
    if slash:
        return [f"{kind}/{found}" for found in _names(context, kind) if found.startswith(name)]
    *before, last = incomplete.split(",")
    return [",".join([*before, found]) for found in _kinds(context) if found.startswith(last.lower())]


def complete_namespace(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of namespaces."""

    async def listed(client: cluster.Client) -> list[str]:
        return await _listed(client, api.Namespace.resource, None)

    return [name for name in _answered(context, listed, []) if name.startswith(incomplete)]


def complete_binding(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of AutoscalingPolicyBindings."""

    async def listed(client: cluster.Client) -> list[str]:
        resource = api.AutoscalingPolicyBinding.resource
        return await _listed(client, resource, context.params.get("namespace"))

    return [name for name in _answered(context, listed, []) if name.startswith(incomplete)]


def _kinds(context: click.Context) -> list[str]:
    async def listed(client: cluster.Client) -> list[str]:
        return (await served.discover(client)).words()

    return _answered(context, listed, [each["spec"]["names"]["plural"] for each in api.custom_definitions()])


def _names(context: click.Context, word: str) -> list[str]:
    async def listed(client: cluster.Client) -> list[str]:
        kind, *more = (await served.discover(client)).meant(word)
        return [] if more else await _listed(client, kind.resource, context.params.get("namespace"))

    return _answered(context, listed, [])


async def _listed(client: cluster.Client, resource: api.Resource, namespace: str | None) -> list[str]:
    path = client.path_of(resource, namespace=namespace)
    answer = await client.ask("GET", path, query={"limit": str(_MAX_NAMES)})
    return [item.metadata.name for item in msgspec.json.decode(answer.body, type=_List).items]


def _answered(
    context: click.Context, ask: Callable[[cluster.Client], Awaitable[list[str]]], otherwise: list[str]
) -> list[str]:
    """The names from the server, or `otherwise` if there is any error: completion never prints errors."""
    said = machine_state.said_state(context)
    server = Server(context.params.get("kubeconfig"), context.params.get("context"), said)

    async def within_time() -> list[str]:
        async with asyncio.timeout(WITHIN_S), server.connect() as client:
            return await ask(client)

    try:
        return asyncio.run(within_time())
    except (cluster.ApiError, click.ClickException, TimeoutError, msgspec.MsgspecError):
        return otherwise
