"""The verbs on one object: create, read, update, patch, apply, delete, with Kubernetes' side effects.

Every method runs to its end without awaiting, so a read-modify-write needs no lock and no retry. A write that
needs an answer from the judge raises UnansweredError before it has changed anything; `handlers.writing`
repeats it once the answer is known.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.api.admission import View
from headgate.apiserver import (
    accounts,
    admission,
    builtin,
    conversion,
    definitions,
    deletion,
    errors,
    metadata,
    ownership,
    patch,
    scale,
)
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers.bodies import check_bounds
from headgate.apiserver.judge import Judge, Question, UnansweredError
from headgate.apiserver.registry import Registry, Served
from headgate.apiserver.service_addresses import Addresses, ServiceAddresses
from headgate.apiserver.storage import Key, Store, Stored
from headgate.apiserver.store_view import StoreView
from headgate.apiserver.targets import FieldValidation, Target, WriteOptions
from headgate.kubeschema import structural, timestamps

Object = dict[str, Any]

GENERATED_NAME_TRIES = 8
EVENTS_PART = 10
"""At most one object in this many may be an Event: Events must not keep out anything else."""
MAX_OBJECT_BYTES = 1_500_000
"""etcd's limit for one object, so that objects which fit here fit in a cluster."""


@dataclass(frozen=True)
class Outcome:
    """The result of a write: the object, warnings for the user, whether it was created."""

    obj: Object
    warnings: list[str] = field(default_factory=list)
    created: bool = False
    body: bytes | None = None
    """The object as JSON, if it is stored in the version of the response."""


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Objects:
    """The verbs, on a store and a registry."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        max_objects: int = 100_000,
        max_bytes: int = 2 << 30,
        clock: Callable[[], datetime.datetime] = _utc_now,
        judge: Judge | None = None,
        others: View | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        """`others` and `addresses` are given if the store does not have everything."""
        self.store = store
        self.registry = registry
        self.store_view = StoreView(store, registry)
        self._others: View = others or self.store_view
        self.judge = judge or Judge()
        self.addresses: Addresses = addresses or ServiceAddresses(store)
        self.max_objects = max_objects
        self.max_events = max(1, max_objects // EVENTS_PART)
        self.max_bytes = max_bytes
        self._max_default_bytes = structural.MAX_DEFAULT_BYTES
        self._max_copied_bytes = patch.MAX_COPIED_BYTES
        self._clock = clock

    @contextlib.contextmanager
    def adding_at_most(self, size: int) -> Iterator[None]:
        """Within this context, which must not await, writes raise admission.SlowDefaultsError above this many
        bytes of defaults, and patch.SlowPatchError above this many bytes copied by a JSON patch.
        """
        self._max_default_bytes = self._max_copied_bytes = size
        try:
            yield
        finally:
            self._max_default_bytes = structural.MAX_DEFAULT_BYTES
            self._max_copied_bytes = patch.MAX_COPIED_BYTES

    # -- reads

    def stored(self, target: Target) -> Stored:
        if (stored := self.store.get(target.key)) is None:
            raise target.not_found()
        return stored

    def get(self, target: Target) -> Object:
        return in_version(self.stored(target).decode(), target.served)

    # -- writes

    def create(self, target: Target, obj: Object, options: WriteOptions, complaints: list[str]) -> Outcome:
        """Create an object. `target.name` is empty, or the name in the path of a patch.

        `complaints` are messages about duplicate fields from the decoder.
        """
        served = target.served
        complaints = [*complaints, *admission.receive(target, obj)]
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        target = self._named(target, meta)
        self._check_place(target)
        if served.has_status:
            obj.pop("status", None)
        builtin.initialize(served.resource, obj)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
            meta.pop(name, None)
        now = self._now()
        meta |= {"uid": metadata.new_uid(), "creationTimestamp": now}
        if served.counts_generations:
            meta["generation"] = 1
        how = options.field_validation
        warnings = self._admit(target, obj, None, complaints, how, obj)
        if served.resource == builtin.DEFINITION:
            self._establish(target, obj, None)
        if present := self.store.get(target.key):
            is_going = "deletionTimestamp" in present.decode()["metadata"]
            raise errors.already_exists(served.group, served.plural, target.name, is_going=is_going)
        ownership.claim_all(served, obj, options.field_manager, now)
        if served.resource == builtin.SERVICE:  # the server owns the address
            self.addresses.assign(target, obj)
        return self._write(target, obj, options, Outcome(obj, warnings, created=True))

    def update(
        self,
        target: Target,
        obj: Object,
        options: WriteOptions,
        complaints: list[str],
        *,
        applied_by: str | None = None,
        said: object = None,
    ) -> Outcome:
        """Replace an object or its status. `applied_by` is the manager of a server-side apply; `said` is the
        part of the object that a patch names, None if the whole object was sent.
        """
        served = target.served
        if target.subresource == "scale":
            return self._update_scale(target, obj, options)
        if self.store.get(target.key) is None and served.resource in builtin.CREATED_BY_UPDATE:
            return self.create(target, obj, options, complaints)
        complaints = [*complaints, *admission.receive(target, obj)]
        old = self.get(target)
        admission.check_precondition(target, old, obj)
        new = admission.status_only(old, obj) if target.subresource == "status" else obj
        admission.keep_what_is_not_the_writers(target, old, new)
        own = obj if said is None else said
        how = options.field_validation
        warnings = self._admit(target, new, old, complaints, how, own)
        if served.resource == builtin.DEFINITION and target.subresource != "status":
            self._establish(target, new, old)
        if admission.same(old, new):
            return Outcome(old, warnings)
        if served.counts_generations and admission.desired(served, old) != admission.desired(served, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if applied_by is None:
            through = target.subresource or options.through
            ownership.record(served, old, new, options.field_manager, through, self._now())
        if served.resource == builtin.SERVICE and target.subresource != "status":
            self.addresses.assign(target, new)
        return self._write(target, new, options, Outcome(new, warnings))

    def patch(
        self, target: Target, kind: patch.Kind, body: Any, options: WriteOptions, complaints: list[str]
    ) -> Outcome:
        """Change an object by a JSON, merge or strategic merge patch. `complaints` are as for `create`."""
        current = self.scale(target) if target.subresource == "scale" else self.get(target)
        if kind == "strategic" and target.served.custom:
            raise errors.unsupported_media_type(patch.CUSTOM_MEDIA_TYPES)
        schema = target.served.merge_schema if target.subresource != "scale" else scale.SCHEMA
        changed = patch.apply(kind, copy.deepcopy(current), body, schema, self._max_copied_bytes)
        check_bounds(changed)
        shown = patch.shown(kind, body, changed) if options.field_validation == "Strict" else ""
        try:
            return self.update(target, changed, options, complaints, said=body)
        except errors.StrictDecodingError as error:
            raise error.of_patch(shown) from error

    def apply(self, target: Target, applied: Object, options: WriteOptions, complaints: list[str]) -> Outcome:
        """Server-side apply: create the object, or merge this manager's fields into it."""
        served = target.served
        admission.check_applied(served, applied)
        if complaints and options.field_validation == "Strict":
            raise errors.strict_decoding_of_apply(complaints)
        ownership.check_declared(target, applied)
        complaints = [*complaints, *admission.receive(target, applied), *admission.prune(served, applied)]
        if applied["metadata"].get("managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        now, manager, subresource = self._now(), options.field_manager, target.subresource
        stored = self.store.get(target.key)
        if stored is None:
            if subresource:
                raise target.not_found()
            applied["metadata"]["name"] = target.name
            new = ownership.apply(served, {}, applied, manager, subresource, now, force=True).obj
            managed = new["metadata"].pop("managedFields", None)
            outcome = self.create(target, new, replace(options, dry_run=True), complaints)
            outcome.obj["metadata"].pop("managedFields", None)  # of an update, which this is not
            if managed:
                outcome.obj["metadata"]["managedFields"] = managed
            return self._write(target, outcome.obj, options, outcome)
        old = in_version(stored.decode(), served)
        merged = ownership.apply(served, old, applied, manager, subresource, now, force=options.force)
        if merged.conflicts:
            raise errors.apply_conflict(merged.conflicts)
        check_bounds(merged.obj)
        return self.update(target, merged.obj, options, complaints, applied_by=manager, said=applied)

    def delete(self, target: Target, options: DeleteOptions, *, dry_run: bool = False) -> tuple[Object, bool]:
        """Delete an object; returns its last state and whether it is already gone."""
        obj = self.get(target)
        if target.served.resource == builtin.NAMESPACE and target.name in builtin.FIRST_NAMESPACES:
            raise target.forbidden("this namespace may not be deleted")
        admission.check_delete_preconditions(target, obj, options)
        before = obj | {"metadata": dict(obj["metadata"])}  # marking only replaces fields of these two
        if deletion.mark(target.served.resource, obj, options, self._clock()):
            if dry_run or obj == before:
                return obj, False
            conversion.to_stored(obj, target.served)
            self.settle(target.key, obj)
            return in_version(obj, target.served), False
        if not dry_run:
            self.store.delete(target.key)
            if target.key == Key(builtin.SERVICE_ACCOUNT, target.namespace, accounts.DEFAULT):
                accounts.give(self, target.namespace)
        return obj, True

    def settle(self, key: Key, obj: Object, max_bytes: int | None = None) -> Stored | None:
        """Store a change by the server itself; removes the object if it only waited for that."""
        stored = None
        if deletion.is_over(key.resource, obj):
            self.store.delete(key, obj)
        else:
            # Deletion steps are also written on a full disk; max_bytes applies to changes by clients.
            for_deletion = max_bytes is None or "deletionTimestamp" in obj["metadata"]
            stored = self.store.put(key, obj, max_bytes, for_deletion=for_deletion)
        if key.resource == builtin.DEFINITION:
            # Update the registry immediately, so that the next definition is checked against this one.
            self.store.flush()
        return stored

    # -- subresources

    def scale(self, target: Target) -> Object:
        """The autoscaling/v1 Scale of an object."""
        assert target.served.scale
        return scale.of(self.get(replace(target, subresource="")), target.served.scale)

    def _update_scale(self, target: Target, wanted: Object, options: WriteOptions) -> Outcome:
        main = replace(target, subresource="")
        old = self.get(main)
        assert target.served.scale
        if wanted.get("kind", scale.KIND) != scale.KIND or not isinstance(wanted.get("metadata", {}), dict):
            raise errors.bad_request(f"a {scale.GROUP}/{scale.VERSION} {scale.KIND} is needed to scale")
        if (name := wanted.get("metadata", {}).get("name")) not in (None, "", target.name):
            told = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            raise errors.bad_request(told)
        if wanted.get("metadata", {}).get("resourceVersion") not in (
            None,
            "",
            old["metadata"]["resourceVersion"],
        ):
            raise target.conflict(errors.STALE)
        new = scale.apply(old, target.served.scale, wanted)
        through = replace(options, field_validation="Ignore", through=target.subresource)
        outcome = self.update(main, new, through, [])
        return Outcome(scale.of(outcome.obj, target.served.scale), outcome.warnings)

    # -- the steps of a write

    def _admit(
        self,
        target: Target,
        new: Object,
        old: Object | None,
        complaints: list[str],
        how: FieldValidation,
        said: object,
    ) -> list[str]:
        bound = self._max_default_bytes
        return admission.admit(target, new, old, complaints, how, self._others, said, self.judge, bound)

    def _named(self, target: Target, meta: dict[str, Any]) -> Target:
        """The target with the requested name, which is also set in the metadata."""
        name = target.name or meta.get("name", "")
        if not name and (prefix := meta.get("generateName")):
            name = self._free_name(target, prefix)
        if name:
            meta["name"] = name
        if target.served.namespaced:
            meta["namespace"] = target.namespace
        else:
            meta.pop("namespace", None)
        return Target(target.served, target.namespace, name, target.subresource)

    def _free_name(self, target: Target, prefix: str) -> str:
        """An unused name with this prefix; 409 if none is found, as in Kubernetes."""
        for _ in range(GENERATED_NAME_TRIES):
            name = metadata.generate_name(prefix)
            if self.store.get(replace(target, name=name).key) is None:
                return name
        raise errors.already_exists(target.served.group, target.served.plural, name)

    def _check_place(self, target: Target) -> None:
        """Check the limits on objects, and that the namespace exists."""
        if len(self.store) >= self.max_objects:
            raise target.forbidden(f"exceeded the limit of {self.max_objects} objects in this API server")
        if target.served.resource == builtin.EVENT and self.store.count_of(builtin.EVENT) >= self.max_events:
            raise target.forbidden(f"exceeded the limit of {self.max_events} Events in this API server")
        if not target.served.namespaced:
            return
        namespace = target.namespace
        space = self.store.get(Key(builtin.NAMESPACE, "", namespace))
        if space is None:
            raise errors.not_found("", builtin.NAMESPACE, namespace)
        if b"deletionTimestamp" in space.body and "deletionTimestamp" in space.decode()["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            told = f"namespace {namespace} is being terminated"
            raise target.forbidden(why, errors.Cause("NamespaceTerminating", told, "metadata.namespace"))

    def _establish(self, target: Target, definition: Object, old: Object | None) -> None:
        """Check a definition, and set the status it has once its kind is served."""
        unanswered: list[Question] = []

        def check(schema: structural.Schema, field: str) -> list[structural.FieldError]:
            try:
                return self.judge.check(schema, field)
            except UnansweredError as error:
                unanswered.extend(error.questions)
                return []

        found = definitions.faults(definition, old, self.registry, check)
        if unanswered:
            raise UnansweredError(unanswered)
        if found:
            raise target.invalid(*found)
        before = (old or {}).get("status") or {}
        definition["status"] = builtin.established(definition, self._now(), before)

    def _now(self) -> str:
        return timestamps.seconds(self._clock().timestamp())

    def _write(self, target: Target, obj: Object, options: WriteOptions, outcome: Outcome) -> Outcome:
        """Store the object; returns the outcome with the stored state."""
        served = target.served
        obj["apiVersion"], obj["kind"] = served.api_version, served.kind
        if options.dry_run:
            return replace(outcome, obj=obj)
        stored = self._store(target, obj)
        is_stored_so = stored is not None and served.api_version == served.storage_api_version
        body = stored.body if stored and is_stored_so else None
        return Outcome(in_version(obj, served), outcome.warnings, outcome.created, body)

    def _store(self, target: Target, obj: Object) -> Stored | None:
        if self.store.bytes >= self.max_bytes and "deletionTimestamp" not in obj["metadata"]:
            raise target.forbidden(f"exceeded the limit of {self.max_bytes} bytes in this API server")
        conversion.to_stored(obj, target.served)
        stored = self.settle(target.key, obj, MAX_OBJECT_BYTES)
        if target.served.resource == builtin.NAMESPACE:
            accounts.give(self, target.name)
        return stored


def in_version(obj: Object, served: Served) -> Object:
    """A stored object in the requested version."""
    return conversion.to_served(obj, served)
