"""ConfigMaps and Secrets that Pods refer to."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping
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
