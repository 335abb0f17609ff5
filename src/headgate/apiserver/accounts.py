"""The ServiceAccount `default`, which every existing namespace has."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from headgate.apiserver import builtin, errors
from headgate.apiserver.registry import Registry
from headgate.apiserver.storage import Key, Store
from headgate.apiserver.targets import Target, WriteOptions

DEFAULT = "default"
_MANAGER = "headgate"


class Objects(Protocol):
    """The operations needed to create accounts."""

    @property
    def store(self) -> Store: ...
    @property
    def registry(self) -> Registry: ...
    def create(
        self, target: Target, obj: dict[str, Any], options: WriteOptions, complaints: list[str]
    ) -> object: ...


def give(objects: Objects, namespace: str) -> None:
    """Create the account of a namespace if missing; not in a terminating namespace, nor on a full server."""
    space = objects.store.get(Key(builtin.NAMESPACE, "", namespace))
    if space is None or "deletionTimestamp" in space.decode()["metadata"]:
        return
    if objects.store.get(Key(builtin.SERVICE_ACCOUNT, namespace, DEFAULT)) is not None:
        return
    served = objects.registry.find("", "v1", builtin.SERVICE_ACCOUNT)
    assert served
    with contextlib.suppress(errors.StatusError):
        account = {"metadata": {"name": DEFAULT}}
        objects.create(Target(served, namespace, ""), account, WriteOptions(field_manager=_MANAGER), [])


def give_all(objects: Objects) -> None:
    """Create it in every namespace that was stored before there were accounts."""
    for name in [stored.key.name for stored in objects.store.select(builtin.NAMESPACE)]:
        give(objects, name)
