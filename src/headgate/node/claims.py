"""persistentVolumeClaim volumes: the directory of a bound local volume, or one that the node keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from headgate import cluster
from headgate.api.meta import Resource
from headgate.node import host_paths
from headgate.node.pod_directories import PodDirectories
from headgate.node.pod_spec import HostPath
from headgate.node.volume_files import VolumeError

_CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_VOLUME = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)


async def provide(
    client: cluster.Client, directories: PodDirectories, namespace: str, name: str
) -> tuple[Path, bool]:
    """The directory of a claim, and whether it is read-only. Raises VolumeError and OSError.

    The embedded API server has no claims: there, each name stands for a directory of the node.
    """
    if not await _has_claims(client):
        return await asyncio.to_thread(directories.claim, namespace, name), False
    what = f'PersistentVolumeClaim "{name}"'
    claim = await _read(client, _CLAIM, name, namespace, what)
    volume = (claim.get("spec") or {}).get("volumeName")
    if (claim.get("status") or {}).get("phase") != "Bound" or not volume:
        raise VolumeError(f"{what} is not bound to a PersistentVolume yet")
    spec = (await _read(client, _VOLUME, volume, None, f'PersistentVolume "{volume}"')).get("spec") or {}
    read_only = (claim.get("spec") or {}).get("accessModes") == ["ReadOnlyMany"]
    source = spec.get("hostPath") or spec.get("local")
    if not source:
        raise VolumeError(f'PersistentVolume "{volume}" is neither hostPath nor local, all that is supported')
    where = HostPath(path=str(source["path"]), type=str(source.get("type") or ""))
    return await asyncio.to_thread(host_paths.provide, where), read_only


async def _has_claims(client: cluster.Client) -> bool:
    try:
        await client.resource_of("v1", _CLAIM.kind)
    except cluster.NotFound:
        return False
    except cluster.ApiError as error:
        raise VolumeError(f"the API server does not say whether it has claims: {error}") from error
    return True


async def _read(
    client: cluster.Client, resource: Resource, name: str, namespace: str | None, what: str
) -> dict[str, Any]:
    try:
        return await client.get_manifest(resource, name, namespace)
    except cluster.NotFound as error:
        raise VolumeError(f"{what} not found") from error
    except cluster.ApiError as error:
        raise VolumeError(f"{what} cannot be read: {error}") from error
