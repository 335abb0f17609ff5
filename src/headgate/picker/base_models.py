"""The base model of each model name, from ConfigMaps: `data.baseModel`, and the YAML list `data.adapters`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import yaml

from headgate import bounded_yaml

if TYPE_CHECKING:
    from headgate import api, cluster

log = logging.getLogger(__name__)

LABEL = "inference.networking.k8s.io/bbr-managed"
"""Marks the ConfigMaps that count, with the value `true`."""
MAX_ADAPTERS = 10_000
MAX_CHARACTERS = 256 * 1024
"""Length of a list of adapters: reading it takes about a third of a second, in which nothing is picked."""
MAX_LEVELS = 5


class BaseModels:
    """Follows ConfigMaps. If two of them have a name, the first by namespace and name counts."""

    def __init__(self) -> None:
        self._maps: dict[api.ObjectKey, tuple[str, frozenset[str]]] = {}
        self._of: dict[str, str] = {}

    def of(self, model: str) -> str:
        """The base model of a model or adapter; "" if it is unknown."""
        return self._of.get(model, "")

    def note(self, change: cluster.Change[api.ConfigMap]) -> None:
        """Apply the change of a ConfigMap."""
        key, new = change.object.metadata.key, change.new
        found = None
        if new is not None and new.metadata.labels.get(LABEL) == "true":
            found = _read(key, new.data)
        if found is None:
            self._maps.pop(key, None)
        else:
            self._maps[key] = found
        self._of = {}
        for _, (base, adapters) in sorted(self._maps.items()):
            for name in (base, *sorted(adapters)):
                self._of.setdefault(name, base)


def _read(key: api.ObjectKey, data: dict[str, str]) -> tuple[str, frozenset[str]] | None:
    """The base model and its adapters; None if there is no base model."""
    base = data.get("baseModel", "").strip()
    if not base:
        log.warning("ConfigMap %s: data.baseModel is missing: set it to the name of the base model", key)
        return None
    return base, _adapters(key, data.get("adapters", ""))


def _adapters(key: api.ObjectKey, text: str) -> frozenset[str]:
    if len(text) > MAX_CHARACTERS:
        log.warning("ConfigMap %s: data.adapters has more than %d characters", key, MAX_CHARACTERS)
        return frozenset()
    try:
        bounded_yaml.check(text, MAX_LEVELS)
        listed = yaml.load(text or "[]", bounded_yaml.LOADER)  # noqa: S506 - it is a safe one
    except Exception as error:  # of any kind, for values that do not fit their tags
        log.warning("ConfigMap %s: data.adapters is not YAML: %s", key, str(error).replace("\n", " "))
        return frozenset()
    if not isinstance(listed, list):
        log.warning("ConfigMap %s: data.adapters must be a list of names", key)
        return frozenset()
    return frozenset(each for each in listed[:MAX_ADAPTERS] if isinstance(each, str) and each)
