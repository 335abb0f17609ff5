"""ConfigMaps and Secrets that Pods refer to."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from headgate import api, cluster


class Reference(NamedTuple):
    """An object in the Pod's namespace."""

    kind: Literal["ConfigMap", "Secret"]
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'


class Contents(NamedTuple):
    """What an object holds, by key."""

    texts: Mapping[str, bytes]
    """What can become a variable: all but the `binaryData` of a ConfigMap."""
    files: Mapping[str, bytes]


Found = Mapping[Reference, Contents | None]
"""The contents of each object by key; None for one that does not exist."""


class UnreadableError(Exception):
    """The API server did not return an object; the message names it."""


async def read(client: cluster.Client, namespace: str, wanted: Iterable[Reference]) -> Found:
    """Read the objects. Raises UnreadableError."""
    references = list(dict.fromkeys(wanted))
    read = await asyncio.gather(*(_read(client, namespace, each) for each in references))
    return dict(zip(references, read, strict=True))


def contents(obj: api.ConfigMap | api.Secret) -> Contents:
    """Everything in an object. Raises UnreadableError for an invalid encoding."""
    encoded = obj.binary_data if isinstance(obj, api.ConfigMap) else obj.data
    try:
        data = {key: base64.b64decode(value, validate=True) for key, value in encoded.items()}
    except (binascii.Error, ValueError) as error:
        what = Reference("ConfigMap" if isinstance(obj, api.ConfigMap) else "Secret", obj.metadata.name)
        raise UnreadableError(f"{what} is not in base64: {error}") from error
    if isinstance(obj, api.Secret):
        return Contents(data, data)
    texts = {key: value.encode() for key, value in obj.data.items()}
    return Contents(texts, data | texts)


async def _read(client: cluster.Client, namespace: str, wanted: Reference) -> Contents | None:
    kind = api.ConfigMap if wanted.kind == "ConfigMap" else api.Secret
    try:
        return contents(await client.get(kind, wanted.name, namespace))
    except cluster.NotFound:
        return None
    except cluster.ApiError as error:
        raise UnreadableError(f"{wanted} cannot be read: {error}") from error


class FollowedReferences:
    """Reports changes of the objects that Pods refer to; one watch for each object, shared by all Pods."""

    def __init__(self, client: cluster.Client) -> None:
        self._config_maps = cluster.NamedObjects(client, api.ConfigMap, self._heard)
        self._secrets = cluster.NamedObjects(client, api.Secret, self._heard)
        self._holders: dict[str, tuple[frozenset[tuple[str, api.ObjectKey]], Callable[[], None]]] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._config_maps.run())
            tasks.create_task(self._secrets.run())

    def follow(
        self, uid: str, namespace: str, wanted: Iterable[Reference], changed: Callable[[], None]
    ) -> None:
        """Call `changed` after each change of an object that this Pod refers to."""
        keys = frozenset((each.kind, api.ObjectKey(namespace, each.name)) for each in wanted)
        self._holders[uid] = (keys, changed)
        self._follow()

    def forget(self, uid: str) -> None:
        if self._holders.pop(uid, None) is not None:
            self._follow()

    def statistics(self) -> dict[str, int]:
        return {"pods": len(self._holders), "objects": len(self._keys())}

    def _follow(self) -> None:
        keys = self._keys()
        self._config_maps.follow(key for kind, key in keys if kind == "ConfigMap")
        self._secrets.follow(key for kind, key in keys if kind == "Secret")

    def _keys(self) -> set[tuple[str, api.ObjectKey]]:
        return {key for keys, _ in self._holders.values() for key in keys}

    def _heard(self, change: cluster.Change[api.ConfigMap] | cluster.Change[api.Secret]) -> None:
        kind = "ConfigMap" if isinstance(change.object, api.ConfigMap) else "Secret"
        key = (kind, change.object.metadata.key)
        for keys, changed in list(self._holders.values()):
            if key in keys:
                changed()
