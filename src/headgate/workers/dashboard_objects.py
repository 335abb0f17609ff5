"""Reads Models and what scales them for the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from headgate import api, cluster
from headgate.dashboard import Objects

PATIENCE_S: Final = 5.0
EVENTS_OF: Final = ("AutoscalingPolicyBinding", "Model", "VariantAutoscaling")

Kind = TypeVar("Kind", bound=cluster.KubeObject)


async def read(kubeconfig: str | None, namespaces: Sequence[str]) -> Objects:
    """Those of these namespaces; of all if there are none. What cannot be read is told in `missing`."""
    missing: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            file = Path(kubeconfig) if kubeconfig is not None else None
            async with cluster.Client.from_kubeconfig(file) as client:
                reading = _Reading(client, namespaces or [None], missing)
                models = await reading.all(api.Model)
                bindings = await reading.all(api.AutoscalingPolicyBinding)
                variants = await reading.all(api.VariantAutoscaling)
                events = [
                    each
                    for kind in EVENTS_OF
                    for each in await reading.all(api.Event, f"involvedObject.kind={kind}")
                ]
                return Objects(models, bindings, variants, events, list(dict.fromkeys(missing)))
    except TimeoutError:
        missing.append(f"The API server did not answer within {PATIENCE_S:g} s.")
    except (cluster.ApiError, cluster.ConfigurationError) as error:
        missing.append(str(error))
    return Objects(missing=missing)


class _Reading:
    def __init__(self, client: cluster.Client, namespaces: Sequence[str | None], missing: list[str]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._missing = missing

    async def all(self, kind: type[Kind], selector: str | None = None) -> list[Kind]:
        found: list[Kind] = []
        for namespace in self._namespaces:
            try:
                found += await self._client.list(kind, namespace, field_selector=selector)
            except cluster.Forbidden:
                resource = kind.resource
                place = f"namespace {namespace}" if namespace is not None else "all namespaces"
                name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
                self._missing.append(
                    f"This gateway may not list {name} in {place}: grant its service account the verb list."
                )
            except cluster.NotFound:
                pass  # the kind is not installed
        return found
