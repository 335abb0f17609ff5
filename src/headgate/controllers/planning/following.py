"""Follows VariantAutoscalings, and the ConfigMaps that they are planned by."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.planning.settings import PlanningSettings
from headgate.planning import limits
from headgate.planning.config_maps import (
    CLASSES,
    COSTS,
    LIMITS,
    MAIN,
    SCALE_TO_ZERO,
    ClassReader,
    ConfigProblem,
    Configuration,
    Place,
    read,
)

_NAMES: Final = (COSTS, CLASSES, MAIN, SCALE_TO_ZERO, LIMITS)
_PATIENCE_S: Final = 5.0
"""How long the first pass waits for the right to read Nodes."""


_MOST_REFERENCES: Final = 256
"""ConfigMaps of service classes that are followed."""
_MOST_OF_NAMESPACE: Final = 16
"""Names of those that the objects of one namespace refer to: a tenant leaves some to the others."""


class Inventory(NamedTuple):
    configuration: Configuration
    limits: Mapping[str, int] | None
    """Accelerators by type; None: there are always enough."""


class _Reading:
    """Reads ConfigMaps again once they have changed, in a thread: leadership must not wait for the YAML of a
    tenant."""

    def __init__(self) -> None:
        self._known: Configuration | None = None
        self._changes = 0
        self._reader = ClassReader()

    def outdate(self) -> None:
        """Some have changed."""
        self._known = None
        self._changes += 1

    async def result(self, *maps: Mapping[str, str] | None, **others: Any) -> Configuration:
        """What they say; see `config_maps.read`."""
        if self._known is not None:
            return self._known
        changes = self._changes
        found = await asyncio.to_thread(read, *maps, reader=self._reader, **others)
        if changes == self._changes:
            self._known = found
        return found


class Followed:
    """What exists, as the informers show it."""

    def __init__(self, touched: Callable[[], object], settings: PlanningSettings) -> None:
        """`touched` is called after changes that a pass has to take in."""
        self._touched = touched
        self._namespace = settings.namespace
        self._environment = settings.environment
        self._variants: dict[api.ObjectKey, api.VariantAutoscaling] = {}
        self._maps: dict[str, Mapping[str, str]] = {}
        self._reading = _Reading()
        self._client: cluster.Client | None = None
        self._others: dict[Place, cluster.Informer[api.ConfigMap]] = {}
        """ConfigMaps with service classes that objects refer to, besides that of all."""
        self._own: dict[Place, cluster.Informer[api.ConfigMap]] = {}
        """Those of all."""
        self._nodes: cluster.Informer[api.Node] | None = None
        self._needs_nodes = asyncio.Event()
        self._refers = asyncio.Event()
        self._awaited: set[cluster.Informer[Any]] = set()
        """Those that a pass has waited for."""
        self._waits: dict[cluster.Informer[Any], asyncio.Task[None]] = {}
        """The waits of the present pass; one is cancelled when nobody refers to its ConfigMap any more."""

    def variants(self) -> Sequence[api.VariantAutoscaling]:
        """Those that are not being deleted."""
        return [each for each in self._variants.values() if each.metadata.deletion_timestamp is None]

    def has(self, key: api.ObjectKey) -> bool:
        return key in self._variants

    async def _read(self) -> Configuration:
        costs, classes, main, zero, _ = (self._maps.get(each) for each in _NAMES)
        return await self._reading.result(
            costs,
            classes,
            main,
            zero,
            namespace=self._namespace,
            environment=self._environment,
            other_classes=self._other_classes(),
        )

    async def inventory(self) -> Inventory:
        """How many accelerators there are, and the configuration with what is wrong about that."""
        while unknown := [each for each in self._others.values() if each not in self._awaited]:
            await asyncio.gather(*map(self._wait_for, unknown))
        configuration = await self._read()
        found: dict[str, int] | None = None
        problems: list[ConfigProblem] = []
        if configuration.is_limited:
            assert self._nodes is not None
            nodes = self._nodes
            self._needs_nodes.set()
            await self._wait_for(nodes)
            found = limits.of_nodes(nodes.items(), configuration.accelerators)
            if nodes.denied is not None:
                problems.append(_denied(f"{self._namespace}/{MAIN}"))
        data = self._maps.get(LIMITS)
        if data is not None:
            place = f"{self._namespace}/{LIMITS}"
            own, wrong = limits.of_config_map(place, data, configuration.accelerators)
            found = {**(found or {}), **own}
            problems += wrong
        unread = list(self._unread())
        places = {each.config_map for each in unread}
        known = [each for each in configuration.problems if each.config_map not in places]
        whole = msgspec.structs.replace(configuration, problems=(*known, *problems, *unread))
        return Inventory(whole, found)

    def _unread(self) -> Iterator[ConfigProblem]:
        """ConfigMaps of which nothing is known, since access to them is denied."""
        for place, informer in {**self._own, **self._others}.items():
            if informer.denied is not None and informer.get(*place) is None:
                yield _unreadable(place, informer.denied, is_warning=place not in self._own)

    async def _wait_for(self, informer: cluster.Informer[Any]) -> None:
        """Until its objects are known, or it is known that they may not be read, the first time; or until
        nobody refers to them any longer, as then they are not followed and will never be known."""
        if informer in self._awaited:
            return
        wait = self._waits[informer] = asyncio.create_task(informer.wait_known(_PATIENCE_S))
        try:
            await asyncio.wait([wait])
        finally:
            wait.cancel()
            self._waits.pop(informer, None)
        if not wait.cancelled():
            self._awaited.add(informer)

    async def follow_nodes(self) -> None:
        """Until cancelled, once they are needed."""
        assert self._nodes is not None
        await self._needs_nodes.wait()
        await self._nodes.run()

    async def follow_classes(self) -> None:
        """ConfigMaps that objects refer to; until cancelled."""
        running: dict[cluster.Informer[Any], asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._refers.clear()
                wanted = set(self._others.values())
                for informer in running.keys() - wanted:
                    running.pop(informer).cancel()
                    self._awaited.discard(informer)
                for informer in wanted - running.keys():
                    running[informer] = tasks.create_task(informer.run())
                await self._refers.wait()

    def _refer(self) -> None:
        """Follow those that objects refer to now: by name, as whoever follows them needs no other right."""
        assert self._client is not None
        names: defaultdict[str, set[str]] = defaultdict(set)
        for each in self._variants.values():
            names[each.metadata.namespace].add(each.spec.slo_class_ref.name)
        places = {
            (place, name)
            for namespace, own in names.items()
            for name in sorted(own)[:_MOST_OF_NAMESPACE]
            for place in (namespace, self._namespace)
        } - {(self._namespace, CLASSES)}
        if places == self._others.keys():
            return
        kept = {place: each for place, each in self._others.items() if place in places}
        for namespace, name in sorted(places - kept.keys())[: _MOST_REFERENCES - len(kept)]:
            informer = cluster.Informer(
                self._client,
                api.ConfigMap,
                namespace,
                field_selector=f"metadata.name={name}",
                may_be_absent=True,
            )
            informer.subscribe(self._other_changed)
            kept[namespace, name] = informer
        for place, informer in self._others.items():
            if place not in kept and (wait := self._waits.get(informer)) is not None:
                wait.cancel()
        self._others = kept
        self._reading.outdate()
        self._refers.set()

    def _other_classes(self) -> dict[Place, Mapping[str, str]]:
        found = {place: informer.get(*place) for place, informer in self._others.items()}
        return {place: each.data for place, each in found.items() if each is not None}

    def _other_changed(self, _: cluster.Change[api.ConfigMap]) -> None:
        self._reading.outdate()
        self._touched()

    def informers(self, client: cluster.Client, namespaces: Sequence[str]) -> list[cluster.Informer[Any]]:
        """Those of all kinds, subscribed to."""
        self._client = client
        found: list[cluster.Informer[Any]] = []
        for scope in cluster.scopes(namespaces):
            variants = cluster.Informer(client, api.VariantAutoscaling, scope, may_be_absent=True)
            variants.subscribe(self._variant_changed)
            found.append(variants)
        for name in _NAMES:
            # By name: whoever follows them needs no right to read any other.
            maps = cluster.Informer(
                client,
                api.ConfigMap,
                self._namespace,
                field_selector=f"metadata.name={name}",
                may_be_absent=True,
            )
            maps.subscribe(self._map_changed)
            self._own[self._namespace, name] = maps
            found.append(maps)
        self._nodes = cluster.Informer(client, api.Node, may_be_absent=True, reduced=_reduced)
        self._nodes.subscribe(self._node_changed)
        return found

    def _node_changed(self, change: cluster.Change[api.Node]) -> None:
        if change.old is None or change.new is None or _offer(change.old) != _offer(change.new):
            self._touched()

    def _map_changed(self, change: cluster.Change[api.ConfigMap]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._maps.pop(name, None)
        else:
            self._maps[name] = change.new.data
        if change.old is None or change.new is None or change.old.data != change.new.data:
            self._reading.outdate()
            self._touched()

    def _variant_changed(self, change: cluster.Change[api.VariantAutoscaling]) -> None:
        old, new = change.old, change.new
        if new is None:
            self._variants.pop(change.object.metadata.key, None)
        else:
            self._variants[change.object.metadata.key] = new
        if old is None or new is None or old.spec.slo_class_ref != new.spec.slo_class_ref:
            self._refer()
        if old is None or new is None or _input(old) != _input(new):
            self._touched()


def _unreadable(place: Place, denied: cluster.Denied, *, is_warning: bool) -> ConfigProblem:
    namespace, name = place
    return ConfigProblem(
        config_map=f"{namespace}/{name}",
        told=f"may not be read: {denied.why}",
        fix=f"add the rule {denied.rule} to a Role in namespace {namespace} that is bound to this account",
        is_warning=is_warning,
    )


def _denied(config_map: str) -> ConfigProblem:
    return ConfigProblem(
        config_map=config_map,
        key="WVA_LIMITED_MODE",
        told="asks for the accelerators of Nodes, which the controller may not read",
        fix="grant it to list and watch nodes, which rbac.readNodes of the chart does",
        is_warning=True,
    )


def _reduced(node: api.Node) -> api.Node:
    """Without addresses, images and annotations."""
    metadata = msgspec.structs.replace(node.metadata, annotations={}, owner_references=[])
    conditions = [each for each in node.status.conditions if each.type == "Ready"]
    status = api.NodeStatus(conditions=conditions, allocatable=node.status.allocatable)
    return msgspec.structs.replace(node, metadata=metadata, status=status)


def _offer(node: api.Node) -> object:
    """What limits depend on; not the time of the last heartbeat."""
    ready = [each.status for each in node.status.conditions]
    return node.metadata.labels, node.spec, node.status.allocatable, ready


def _input(obj: api.VariantAutoscaling) -> object:
    """What a pass depends on; not the status, what was learned and the load, which passes write."""
    metadata = obj.metadata
    own = (marks.LEARNED_PROFILE, marks.PLANNED_LOAD)
    annotations = {key: each for key, each in metadata.annotations.items() if key not in own}
    return (
        metadata.uid,
        metadata.labels,
        annotations,
        metadata.deletion_timestamp,
        obj.spec,
    )
