"""Where the weights and adapters of a backend are: their directories, volumes and mounts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from headgate.api.kthena_registry import LoraAdapter, ModelBackend
from headgate.controllers.model import names

HOST_PATH, CLAIM = "hostpath://", "pvc://"
WEIGHTS = "/weights"
"""Where weights are mounted that are kept with the Pod."""

_CLAIM_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_OWN: Final = (
    *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root"),
    *("run", "sbin", "srv", "sys", "tmp", "usr", "var", "weights"),
)
"""Directories of images that a volume must not hide."""


class InvalidSourceError(ValueError):
    """A URI cannot be used; `field` is its path in the backend."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Mounted(NamedTuple):
    """A volume, and where it is mounted."""

    volume: dict[str, Any]
    path: str

    def mount(self, *, read_only: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.volume["name"], "mountPath": self.path}
        return {**found, "readOnly": True} if read_only else found


class Source(NamedTuple):
    """Something to be downloaded, or used where it is."""

    uri: str
    directory: str
    in_place: bool


class Storage(NamedTuple):
    """Where everything of a backend is."""

    cache: Mounted
    base: str
    """Directory of the cache, below its mount."""
    claims: tuple[Mounted, ...]
    """Claims that sources are in, used in place."""
    weights: Source
    adapters: tuple[Source, ...]
    """In the order of the backend's adapters."""

    @property
    def downloads(self) -> bool:
        return not all(source.in_place for source in (self.weights, *self.adapters))


def storage(backend: ModelBackend, host_path_roots: Sequence[str] = ()) -> Storage:
    """Where the weights and adapters of a backend are. A cache on the node must be in one of these
    directories, if there are any. Raises InvalidSourceError."""
    cache, base = _cache(backend, host_path_roots)
    claims: dict[str, Mounted] = {}
    if "persistentVolumeClaim" in cache.volume:
        claims[cache.volume["persistentVolumeClaim"]["claimName"]] = cache

    def source(field: str, uri: str) -> Source:
        if not uri.startswith(CLAIM):
            return Source(uri, directory(base, uri), in_place=False)
        claim, path = _claim(field, uri)
        if claim not in claims:
            volume = {
                "name": f"claim-{len(claims)}",
                "persistentVolumeClaim": {"claimName": claim, "readOnly": True},
            }
            claims[claim] = Mounted(volume, _mount_path(claim))
        return Source(uri, f"{claims[claim].path}/{path}".rstrip("/"), in_place=True)

    weights = source("modelURI", backend.model_uri)
    adapters = tuple(
        source(f"loraAdapters[{index}].artifactURL", adapter.artifact_url)
        for index, adapter in enumerate(backend.lora_adapters)
    )
    own = [mounted for mounted in claims.values() if mounted is not cache]
    return Storage(cache, base, tuple(own), weights, adapters)


def directories(adapters: Sequence[LoraAdapter], sources: Sequence[Source]) -> dict[str, str]:
    """The directories of adapters by name."""
    return {a.name: source.directory for a, source in zip(adapters, sources, strict=True)}


def directory(base: str, uri: str) -> str:
    """The directory below `base` for what is downloaded from `uri`."""
    return f"{base}/{hashlib.md5(uri.encode(), usedforsecurity=False).hexdigest()}"


def _cache(backend: ModelBackend, roots: Sequence[str]) -> tuple[Mounted, str]:
    uri = backend.cache_uri
    name = names.shortened(f"{backend.name}-weights", names.LONGEST_LABEL)
    if uri is None:
        return Mounted({"name": name, "emptyDir": {}}, WEIGHTS), WEIGHTS
    if uri.startswith(HOST_PATH):
        path = "/" + _relative("cacheURI", uri.removeprefix(HOST_PATH))
        if path == "/" or path[1:] in _OWN:
            raise InvalidSourceError(
                "cacheURI", f"{uri!r} would hide {path} of the containers: use a directory below it"
            )
        if roots and not any(PurePosixPath(path).is_relative_to(root) for root in roots):
            raise InvalidSourceError(
                "cacheURI",
                f"{uri!r} is not below {' or '.join(roots)}, the directories of nodes that the controller "
                "allows by --host-path-root",
            )
        return Mounted({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}, path), path
    claim, path = _claim("cacheURI", uri)
    mounted = Mounted({"name": name, "persistentVolumeClaim": {"claimName": claim}}, _mount_path(claim))
    return mounted, f"{mounted.path}/{path}".rstrip("/")


def _mount_path(claim: str) -> str:
    return f"/mnt/{claim}" if claim in _OWN else f"/{claim}"


def _claim(field: str, uri: str) -> tuple[str, str]:
    """Name of the claim and path in it, of a URI pvc://claim/path."""
    claim, _, path = uri.removeprefix(CLAIM).partition("/")
    if not _CLAIM_NAME.fullmatch(claim):
        raise InvalidSourceError(field, f"{uri!r} does not begin with pvc:// and the name of a claim")
    return claim, _relative(field, path)


def _relative(field: str, path: str) -> str:
    """The path without slashes around it or twice. Raises InvalidSourceError."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or ":" in path or not path.isprintable():
        raise InvalidSourceError(field, f"the path {path!r} must not have '..', ':' or control characters")
    return "/".join(parts)
