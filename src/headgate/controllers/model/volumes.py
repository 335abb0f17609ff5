"""Where the weights and adapters of a backend are: their directories, volumes and mounts."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from headgate.api.kthena_registry import ModelBackend
from headgate.controllers.model import names

HOST_PATH, CLAIM = "hostpath://", "pvc://"
WEIGHTS = "/weights"
"""Where weights are mounted that are kept with the Pod."""


class Store(NamedTuple):
    """A volume, where it is mounted, and whether the Pod only reads it."""

    volume: dict[str, Any]
    path: str
    read_only: bool = False

    @property
    def mount(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.volume["name"], "mountPath": self.path}
        return {**found, "readOnly": True} if self.read_only else found


def cache(backend: ModelBackend) -> Store:
    """The volume for what a Pod downloads. Raises ValueError if cacheURI cannot be used."""
    uri = backend.cache_uri
    name = names.shortened(f"{backend.name}-weights", names.LONGEST_LABEL)
    if uri is None:
        return Store({"name": name, "emptyDir": {}}, WEIGHTS)
    if uri.startswith(HOST_PATH):
        path = _absolute(uri.removeprefix(HOST_PATH))
        return Store({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}, path)
    claim, path = claim_of(uri)
    return Store({"name": name, "persistentVolumeClaim": {"claimName": claim}}, f"/{claim}")


def directory(base: str, uri: str) -> str:
    """The directory below `base` for what is downloaded from `uri`."""
    return f"{base.rstrip('/')}/{hashlib.md5(uri.encode(), usedforsecurity=False).hexdigest()}"


def claim_of(uri: str) -> tuple[str, str]:
    """Name of the claim and path in it, of a URI pvc://claim/path."""
    claim, _, path = uri.removeprefix(CLAIM).partition("/")
    return claim, path.strip("/")


def _absolute(path: str) -> str:
    return "/" + path.strip("/")
