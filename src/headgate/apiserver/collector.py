"""Garbage collection: dependents of a deleted owner, contents of a deleted namespace or definition.

Driven by the events of the store; each step is an ordinary delete through `Objects`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from headgate.apiserver import builtin, deletion
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.objects import Objects
from headgate.apiserver.storage import Event, Key, Stored
from headgate.apiserver.targets import Target

log = logging.getLogger(__name__)

RETRY_S = 1.0
AT_ONCE = 20
"""Objects of a namespace, or dependents of an owner, changed before other requests run."""
BYTES_AT_ONCE = 256 * 1024
"""The same limit in bytes, for large objects."""
_IN_BACKGROUND = DeleteOptions(propagation_policy="Background")
_IN_FOREGROUND = DeleteOptions(propagation_policy="Foreground")


class _Owner(msgspec.Struct):
    uid: str
    blocks: bool = msgspec.field(default=False, name="blockOwnerDeletion")


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    deletion_timestamp: str | None = None
    finalizers: list[str] = []
    owner_references: list[_Owner] = []


class _Head(msgspec.Struct):
    metadata: _Meta


_DECODER = msgspec.json.Decoder(_Head)


def _head(stored: Stored) -> _Meta:
    return _DECODER.decode(stored.body).metadata


class _Budget:
    """How much may be changed before other requests run."""

    def __init__(self) -> None:
        self._count = self._size = 0
        self.spent = False
        """Whether a change was refused because the budget was used up."""

    def spend(self, stored: Stored) -> bool:
        """Deduct the cost of changing this object; False if the budget is used up."""
        if self._count >= AT_ONCE or self._size >= BYTES_AT_ONCE:
            self.spent = True
            return False
        self._count += 1
        self._size += len(stored.body)
        return True


class Collector:
    """Maintains the ownership graph. `run()` processes the work that events leave."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._uids: dict[str, Key] = {}
        self._dependents: dict[str, set[Key]] = {}
        self._due: dict[Key, None] = {}
        """Objects to check again, in order; each is in it once, so the store bounds its size."""
        self._work = asyncio.Event()
        for stored in objects.store.all():
            self._note(stored)
            self._enqueue(stored.key)
        objects.store.listen(self._on_event)

    def statistics(self) -> dict[str, int]:
        return {"objects": len(self._uids), "due": len(self._due)}

    async def run(self) -> None:
        """Collect until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._work.wait()
            self._work.clear()
            while self._due:
                key = next(iter(self._due))
                del self._due[key]
                try:
                    self._look_at(key)
                except Exception:
                    # An object that cannot be collected must not block the others, nor stop the server.
                    log.exception("collecting %s", "/".join(key))
                    loop.call_later(RETRY_S, self._enqueue, key)
                await asyncio.sleep(0)

    # -- the graph

    def _on_event(self, event: Event) -> None:
        if event.type == "DELETED":
            self._forget(event)
            return
        if event.old is not None:
            self._unlink(event.old)
        head = self._note(event.new)
        if head.deletion_timestamp is not None or head.owner_references:
            self._enqueue(event.new.key)

    def _note(self, stored: Stored) -> _Meta:
        head = _head(stored)
        self._uids[head.uid] = stored.key
        for owner in head.owner_references:
            self._dependents.setdefault(owner.uid, set()).add(stored.key)
        return head

    def _unlink(self, stored: Stored) -> _Meta:
        """Remove an object from its previous owners: it may have got other ones since."""
        head = _head(stored)
        for owner in head.owner_references:
            dependents = self._dependents.get(owner.uid, set())
            dependents.discard(stored.key)
            if not dependents:
                self._dependents.pop(owner.uid, None)
        return head

    def _forget(self, event: Event) -> None:
        head, key = self._unlink(event.old or event.new), event.new.key
        self._uids.pop(head.uid, None)
        for dependent in self._dependents.pop(head.uid, ()):
            self._enqueue(dependent)
        for owner in head.owner_references:
            if owner.uid in self._uids:
                self._enqueue(self._uids[owner.uid])
        if key.namespace:
            self._enqueue(Key(builtin.NAMESPACE, "", key.namespace))
        self._enqueue(Key(builtin.DEFINITION, "", key.resource))

    def _enqueue(self, key: Key) -> None:
        self._due[key] = None
        self._work.set()

    # -- processing one object

    def _look_at(self, key: Key) -> None:
        if (stored := self._objects.store.get(key)) is None:
            return
        head = _head(stored)
        if head.deletion_timestamp is not None:
            self._advance_deletion(stored, head)
        elif head.owner_references and self._is_orphaned(stored, head):
            self._delete(key, _IN_BACKGROUND)

    def _is_orphaned(self, stored: Stored, head: _Meta) -> bool:
        """Whether all owners are gone. If only some are, the references to them are removed."""
        alive = [owner.uid for owner in head.owner_references if self._is_alive(owner, stored.key)]
        if alive and len(alive) < len(head.owner_references):
            self._keep_owners(stored, set(alive))
        return not alive

    def _is_alive(self, owner: _Owner, dependent: Key) -> bool:
        """Whether the owner exists where an owner may be: cluster-scoped, or in the dependent's namespace."""
        key = self._uids.get(owner.uid)
        return key is not None and key.namespace in ("", dependent.namespace)

    def _advance_deletion(self, stored: Stored, head: _Meta) -> None:
        budget = _Budget()
        if deletion.ORPHAN in head.finalizers:
            self._orphan_dependents(head.uid, budget)
            if not budget.spent:
                self._drop_finalizer(stored, deletion.ORPHAN)
        elif deletion.FOREGROUND in head.finalizers:
            blocking = self._delete_dependents(head.uid, budget)
            if not blocking and not budget.spent:
                self._drop_finalizer(stored, deletion.FOREGROUND)
        elif stored.key.resource == builtin.NAMESPACE:
            self._empty(stored, self._content(stored.key.name))
        elif builtin.DEFINITION_FINALIZER in head.finalizers:
            self._empty(stored, self._objects.store.select(stored.key.name))
        if budget.spent:
            self._enqueue(stored.key)  # other requests run before the rest

    def _present(self, owner: str) -> Iterator[Stored]:
        for key in tuple(self._dependents.get(owner, ())):
            if (dependent := self._objects.store.get(key)) is not None:
                yield dependent

    def _orphan_dependents(self, owner: str, budget: _Budget) -> None:
        for dependent in self._present(owner):
            owners = {each.uid for each in _head(dependent).owner_references}
            if owner in owners:  # otherwise it is already released, and the event has not arrived yet
                if not budget.spend(dependent):
                    return
                self._keep_owners(dependent, owners - {owner})

    def _delete_dependents(self, owner: str, budget: _Budget) -> bool:
        """Delete the dependents; returns whether one of them still exists and blocks the owner.

        A dependent with another owner that stays is released instead of deleted.
        """
        blocking = False
        for dependent in self._present(owner):
            head = _head(dependent)
            others = {
                o.uid for o in head.owner_references if o.uid != owner and self._stays(o, dependent.key)
            }
            if others and owner not in {o.uid for o in head.owner_references}:
                continue
            if (others or head.deletion_timestamp is None) and not budget.spend(dependent):
                return True
            if others:
                self._keep_owners(dependent, others)
                continue
            if head.deletion_timestamp is None:
                self._delete(dependent.key, _IN_FOREGROUND)
            holds = any(o.uid == owner and o.blocks for o in head.owner_references)
            blocking |= holds and self._objects.store.get(dependent.key) is not None
        return blocking

    def _stays(self, owner: _Owner, dependent: Key) -> bool:
        """Whether an owner exists and is not itself waiting for its dependents to be deleted."""
        if not self._is_alive(owner, dependent):
            return False
        stored = self._objects.store.get(self._uids[owner.uid])
        return stored is not None and deletion.FOREGROUND not in _head(stored).finalizers

    def _content(self, namespace: str) -> Generator[Stored]:
        for resource in self._objects.store.resources():
            yield from self._objects.store.select(resource, namespace)

    def _empty(self, container: Stored, content: Generator[Stored]) -> None:
        """Delete some contents of a namespace or definition; finish its deletion when none are left."""
        served = self._objects.registry.by_resource
        waits, due, budget = False, [], _Budget()
        for stored in content:
            # A terminating object waits for its finalizers; an object of an unserved kind waits for nothing.
            if served(stored.key.resource) is None or _head(stored).deletion_timestamp is None:
                if not budget.spend(stored):
                    break
                due.append(stored.key)
            else:
                waits = True
        content.close()
        for key in due:
            self._delete(key, _IN_BACKGROUND)
        if budget.spent:
            self._enqueue(container.key)  # other requests run before the rest
            return
        if waits or any(self._objects.store.get(key) for key in due):
            return
        if container.key.resource == builtin.NAMESPACE:
            obj = container.decode()
            obj.get("spec", {}).pop("finalizers", None)
            self._objects.settle(container.key, obj)
        else:
            self._drop_finalizer(container, builtin.DEFINITION_FINALIZER)

    def _delete(self, key: Key, options: DeleteOptions) -> None:
        served = self._objects.registry.by_resource(key.resource)
        if served is None:
            # No client can access it any more, so there is no point in waiting for its finalizers.
            self._objects.store.delete(key)
            return
        stored = self._objects.store.get(key)
        if stored is None or _head(stored).deletion_timestamp is not None:
            return
        self._objects.delete(Target(served, key.namespace, key.name), options)

    def _drop_finalizer(self, stored: Stored, finalizer: str) -> None:
        obj = stored.decode()
        left = [name for name in obj["metadata"].get("finalizers", []) if name != finalizer]
        _set_or_drop(obj["metadata"], "finalizers", left)
        self._objects.settle(stored.key, obj)

    def _keep_owners(self, stored: Stored, uids: set[str]) -> None:
        obj = stored.decode()
        owners = obj["metadata"].get("ownerReferences", [])
        _set_or_drop(obj["metadata"], "ownerReferences", [owner for owner in owners if owner["uid"] in uids])
        self._objects.settle(stored.key, obj)


def _set_or_drop(meta: dict[str, Any], name: str, values: list[Any]) -> None:
    if values:
        meta[name] = values
    else:
        meta.pop(name, None)
