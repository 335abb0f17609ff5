"""Follows VariantAutoscalings, and the ConfigMaps that they are planned by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headgate import api, cluster
from headgate.controllers.planning.settings import PlanningSettings
from headgate.planning.config_maps import CLASSES, COSTS, MAIN, SCALE_TO_ZERO, Configuration, read

_NAMES: Final = (COSTS, CLASSES, MAIN, SCALE_TO_ZERO)


class Followed:
    """What exists, as the informers show it."""

    def __init__(self, touched: Callable[[], object], settings: PlanningSettings) -> None:
        """`touched` is called after changes that a pass has to take in."""
        self._touched = touched
        self._namespace = settings.namespace
        self._environment = settings.environment
        self._variants: dict[api.ObjectKey, api.VariantAutoscaling] = {}
        self._maps: dict[str, Mapping[str, str]] = {}
        self._configuration: Configuration | None = None

    def variants(self) -> Sequence[api.VariantAutoscaling]:
        """Those that are not being deleted."""
        return [each for each in self._variants.values() if each.metadata.deletion_timestamp is None]

    def has(self, key: api.ObjectKey) -> bool:
        return key in self._variants

    @property
    def configuration(self) -> Configuration:
        if self._configuration is None:
            costs, classes, main, zero = (self._maps.get(each) for each in _NAMES)
            self._configuration = read(
                costs,
                classes,
                main,
                zero,
                namespace=self._namespace,
                environment=self._environment,
            )
        return self._configuration

    def informers(self, client: cluster.Client, namespaces: Sequence[str]) -> list[cluster.Informer[Any]]:
        """Those of all kinds, subscribed to."""
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
            found.append(maps)
        return found

    def _map_changed(self, change: cluster.Change[api.ConfigMap]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._maps.pop(name, None)
        else:
            self._maps[name] = change.new.data
        if change.old is None or change.new is None or change.old.data != change.new.data:
            self._configuration = None
            self._touched()

    def _variant_changed(self, change: cluster.Change[api.VariantAutoscaling]) -> None:
        old, new = change.old, change.new
        if new is None:
            self._variants.pop(change.object.metadata.key, None)
        else:
            self._variants[change.object.metadata.key] = new
        if old is None or new is None or _input(old) != _input(new):
            self._touched()


def _input(obj: api.VariantAutoscaling) -> object:
    """What a pass depends on; not the status, which passes write."""
    metadata = obj.metadata
    return (
        metadata.uid,
        metadata.labels,
        metadata.annotations,
        metadata.deletion_timestamp,
        obj.spec,
    )
