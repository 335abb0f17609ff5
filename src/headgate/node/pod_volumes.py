"""The volumes of one Pod: provides them, keeps them current, and says what they lack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate import cluster
from headgate.node import claims, host_paths, payload, pod_spec, references, tokens, volume_files
from headgate.node.downward import PodIdentity
from headgate.node.pod_directories import PodDirectories
from headgate.node.volume_files import VolumeError

_RETRY_S, _LONGEST_RETRY_S = 1.0, 10.0
"""Doubling; changes of ConfigMaps and Secrets do not wait for it."""
_MEMORY = "Memory"


@dataclass(frozen=True)
class Provided:
    """Where a volume is on this machine."""

    path: Path
    read_only: bool = False
    is_written: bool = False
    """It has files from the API, and no others."""


class PodVolumes:
    """Volumes that no container mounts are left out, as with a kubelet."""

    def __init__(
        self,
        spec: pod_spec.PodSpec,
        client: cluster.Client,
        directories: PodDirectories,
        identity: Callable[[], PodIdentity],
    ) -> None:
        """`identity` returns the current one: labels and annotations of a Pod may change."""
        used = {mount.name for container in spec.every_container() for mount in container.volume_mounts}
        self._spec = spec
        self._volumes = [each for each in spec.volumes if each.name in used]
        self._client = client
        self._directories = directories
        self._identity = identity
        self._tokens: dict[pod_spec.TokenSource, tokens.Token] = {}
        self._changed = asyncio.Event()
        self._provided: dict[str, Provided] = {}

    @property
    def provided(self) -> Mapping[str, Provided]:
        """By name; complete once an update has succeeded."""
        return self._provided

    def __bool__(self) -> bool:
        return bool(self._volumes)

    def objects(self) -> list[references.Reference]:
        return [each for volume in self._volumes for each in volume_files.references(volume)]

    def changed(self) -> None:
        """Something that the volumes are made from has changed."""
        self._changed.set()

    async def run(self, report: Callable[[str], None]) -> None:
        """Provide the volumes and keep them current until cancelled.

        Calls `report` after each attempt with what is missing, or "".
        """
        retry_s = _RETRY_S
        while True:
            self._changed.clear()
            wait_s: float | None = retry_s
            try:
                await self._update()
            except VolumeError as error:
                report(str(error))
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
            else:
                report("")
                wait_s, retry_s = self._renewal_s(), _RETRY_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _update(self) -> None:
        """Raises VolumeError."""
        namespace = self._identity().pod.metadata.namespace
        try:
            found = await references.read(self._client, namespace, self.objects())
        except references.UnreadableError as error:
            raise VolumeError(str(error)) from error
        for volume in self._volumes:
            try:
                self._provided[volume.name] = await self._provide(volume, found)
            except (VolumeError, OSError) as error:
                raise VolumeError(f'volume "{volume.name}": {error}') from error

    async def _provide(self, volume: pod_spec.Volume, found: references.Found) -> Provided:
        metadata = self._identity().pod.metadata
        if volume_files.is_written(volume):
            return await self._write(volume, found)
        if volume.host_path is not None:
            return Provided(await asyncio.to_thread(host_paths.provide, volume.host_path))
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim
            path, read_only = await claims.provide(
                self._client, self._directories, metadata.namespace, claim.claim_name
            )
            return Provided(path, read_only or claim.read_only)
        if volume.empty_dir is not None:
            path = self._directories.volume(
                metadata.uid, volume.name, in_memory=volume.empty_dir.medium == _MEMORY
            )
            return Provided(await asyncio.to_thread(self._directories.create, path))
        raise VolumeError(f"volumes of type {volume.kind} are not supported on this node")

    async def _write(self, volume: pod_spec.Volume, found: references.Found) -> Provided:
        identity = self._identity()
        current = {source: await self._token(source) for source in volume_files.tokens(volume)}
        files = volume_files.files(volume, volume_files.Inputs(self._spec, identity, found, current))
        path = self._directories.volume(identity.pod.metadata.uid, volume.name)
        await asyncio.to_thread(self._directories.create, path)
        await asyncio.to_thread(payload.write, path, files)
        return Provided(path, read_only=True, is_written=True)

    async def _token(self, source: pod_spec.TokenSource) -> str:
        token = self._tokens.get(source)
        if token is None or token.renew_at <= time.time():
            token = self._tokens[source] = await tokens.request(self._client, self._identity().pod, source)
        return token.value

    def _renewal_s(self) -> float | None:
        """Until the first token must be renewed."""
        first = min((each.renew_at for each in self._tokens.values()), default=None)
        return None if first is None else max(0.0, first - time.time())
