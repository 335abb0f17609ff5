"""Writes the objects of Models by server-side apply, only where they differ from what was applied.

An object is applied again when its manifest changes, and when somebody else changed it: its generation then
differs from the one that our own write returned, or its labels and owner do. A change of a field that the
manifest does not have is left as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate import api, cluster
from headgate.controllers.model import names
from headgate.controllers.model.observed import BY_PLURAL, OWN_ANNOTATIONS, Id, Known, owner_of

MANAGER = "headgate-model"
HANDOVER_MANAGER = "headgate-model-handover"
"""Owns the replicas of a workload from when this controller gives them up until an autoscaler sets them."""


class TakenError(Exception):
    """An object of the name that a Model needs exists, and belongs to somebody else."""


class PredecessorError(Exception):
    """An object of a former Model of the same name is still being deleted."""


@dataclass(frozen=True, slots=True)
class _Applied:
    """The last write of an object."""

    uid: str
    generation: int
    owned: tuple[object, ...]
    version: str
    digest: bytes


class Applier:
    """The writes of one process: after a restart, all objects are applied once."""

    def __init__(self, client: cluster.Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._applied: dict[str, dict[Id, _Applied]] = {}
        """By the UID of the Model."""
        self._rerouted: dict[str, float] = {}
        """When a ModelRoute of the Model was last written, in monotonic seconds."""
        self._began = monotonic()
        self.writes = self.deletions = self.corrections = 0

    async def apply(
        self, model: api.Model, kind: type[Any], manifest: dict[str, Any], known: Known | None
    ) -> bool:
        """Make an object as its manifest says; returns whether a change by somebody else was undone.

        `known` is the object of this name as it was last observed. Raises TakenError, PredecessorError, and
        ApiError.
        """
        of_model = self._applied.setdefault(model.metadata.uid, {})
        key = (kind.resource.plural, str(manifest["metadata"]["name"]))
        last, digest = of_model.get(key), _digest(manifest)
        if last is not None and last.digest == digest and not _differs(known, last, manifest):
            return False
        existing = known if known is not None else await self._unseen(key, model)
        check_owner(existing, model)
        await self._hand_over(key, manifest, existing)
        stored = await self._write(key, manifest, model, is_new=existing is None)
        self.writes += 1
        of_model[key] = _Applied(
            stored.metadata.uid,
            stored.metadata.generation,
            _owned(stored.metadata, manifest),
            stored.metadata.resource_version,
            digest,
        )
        is_changed = (
            existing is None or stored.metadata.resource_version != existing.metadata.resource_version
        )
        if is_changed and kind is api.ModelRoute:
            self._rerouted[model.metadata.uid] = self._monotonic()
        is_put_back = is_changed and last is not None and last.digest == digest
        self.corrections += is_put_back
        return is_put_back

    async def delete(self, model: api.Model, known: Known) -> None:
        """Delete an object of the Model, which ends what it runs."""
        key = (known.resource.plural, known.metadata.name)
        # If it is gone, or another one by now, the informer will show it.
        with contextlib.suppress(cluster.NotFound, cluster.Conflict):
            await self._client.delete(
                BY_PLURAL[known.resource.plural],
                known.metadata.name,
                known.metadata.namespace,
                propagation=cluster.CascadeType.BACKGROUND,
                uid=known.metadata.uid,
            )
        self.deletions += 1
        self._applied.get(model.metadata.uid, {}).pop(key, None)

    def deleted(self, uid: str, known: Known) -> None:
        """An object of the Model with this UID is gone: it has to be created again if it is still wanted."""
        key = (known.resource.plural, known.metadata.name)
        last = self._applied.get(uid, {}).get(key)
        if last is not None and last.uid == known.metadata.uid:
            del self._applied[uid][key]

    def forget(self, uid: str) -> None:
        """The Model with this UID is gone."""
        self._applied.pop(uid, None)
        self._rerouted.pop(uid, None)

    def routed_s(self, uid: str) -> float:
        """For how many seconds at least the ModelRoutes of the Model have been as they are."""
        return self._monotonic() - self._rerouted.get(uid, self._began)

    async def _unseen(self, key: Id, model: api.Model) -> Known | None:
        """An object that the informer does not show, because it lacks the label of those of Models.

        All others are followed without a selector, except for Deployments: see `_write`.
        """
        if key[0] != api.LeaderWorkerSet.resource.plural:
            return None
        return await self._get(key, model)

    async def _get(self, key: Id, model: api.Model) -> Known | None:
        try:
            return await self._client.get(BY_PLURAL[key[0]], key[1], model.metadata.namespace)
        except cluster.NotFound:
            return None

    async def _write(self, key: Id, manifest: dict[str, Any], model: api.Model, *, is_new: bool) -> Known:
        """The selector of a Deployment cannot be changed, and so one of somebody else rejects the first
        write, which would add to it. This spares a read before each of them."""

        async def write(*, force: bool) -> Known:
            return await self._client.patch(
                BY_PLURAL[key[0]],
                key[1],
                model.metadata.namespace,
                manifest,
                cluster.PatchType.APPLY,
                field_manager=MANAGER,
                force=force,
            )

        if not is_new or key[0] != api.Deployment.resource.plural:
            return await write(force=True)
        try:
            return await write(force=False)
        except cluster.Invalid:
            check_owner(await self._get(key, model), model)
            raise
        except cluster.Conflict:
            # Our own has lost the label by which it is followed, if there is one: see `_unseen`.
            check_owner(await self._get(key, model), model)
            return await write(force=True)

    async def _hand_over(self, key: Id, manifest: Mapping[str, Any], known: Known | None) -> None:
        """Give up the replicas of a workload whose manifest has none, at their present number.

        A field that is applied no longer is removed if nobody else owns it, and the number would be 1 for a
        moment: so another manager takes it first.
        """
        if known is None or key[0] not in _SCALED or "replicas" in manifest["spec"]:
            return
        resource = known.resource
        current = await self._client.get_manifest(resource, key[1], known.metadata.namespace)
        owners = list(_owners_of_replicas(current))
        if MANAGER not in owners or any(owner != MANAGER for owner in owners):
            return
        handover = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": key[1],
                "namespace": known.metadata.namespace,
                "resourceVersion": current["metadata"]["resourceVersion"],
            },
            "spec": {"replicas": current["spec"]["replicas"]},
        }
        await self._client.patch(
            BY_PLURAL[key[0]],
            key[1],
            known.metadata.namespace,
            handover,
            cluster.PatchType.APPLY,
            field_manager=HANDOVER_MANAGER,
        )


def check_owner(known: Known | None, model: api.Model) -> None:
    if known is None:
        return
    owner = owner_of(known.metadata)
    if owner is None and known.metadata.labels.items() >= _identity(model).items():
        return  # somebody removed the owner, which is put back
    if owner is not None and owner.uid == model.metadata.uid:
        return
    if owner is not None and (owner.kind, owner.name) == (model.resource.kind, model.metadata.name):
        raise PredecessorError(f"{known.resource.kind} {known.metadata.name}")
    whose = f"belongs to {owner.kind} {owner.name}" if owner else "was not made by this Model"
    raise TakenError(
        f"{known.resource.kind} {known.metadata.name} exists already and {whose}: delete it, or rename the "
        "Model or its backend"
    )


_SCALED = (api.Deployment.resource.plural, api.LeaderWorkerSet.resource.plural)


def _identity(model: api.Model) -> dict[str, str]:
    return {names.MODEL_UID: model.metadata.uid}


def _owners_of_replicas(obj: Mapping[str, Any]) -> Any:
    for entry in obj["metadata"].get("managedFields", ()):
        if "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {}):
            yield entry.get("manager", "")


def _differs(known: Known | None, last: _Applied, manifest: Mapping[str, Any]) -> bool:
    """Whether somebody changed the object since the last write, as far as it was observed."""
    if known is None or known.metadata.resource_version == last.version:
        return False  # not shown yet, or just as it was written
    if known.metadata.uid != last.uid:
        return True
    if known.metadata.generation != last.generation:
        return known.metadata.generation > last.generation  # a lower one is from before the write
    return _owned(known.metadata, manifest) != last.owned


def _owned(metadata: api.ObjectMeta, manifest: Mapping[str, Any]) -> tuple[object, ...]:
    """The metadata of the object that the manifest sets."""
    wanted = manifest["metadata"]
    labels = [metadata.labels.get(key) for key in wanted.get("labels", ())]
    kept = (key for key in wanted.get("annotations", ()) if key.startswith(OWN_ANNOTATIONS))
    annotations = [metadata.annotations.get(key) for key in kept]
    owner = owner_of(metadata)
    return (*labels, *annotations, owner.uid if owner else None)


def _digest(manifest: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(manifest), digest_size=16).digest()
