"""Checks on a write before it is stored, and fields that it may not change.

Everything here works on plain objects and does not use the store.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.api import admission as rules
from headgate.apiserver import builtin, definitions, errors, metadata, service_addresses
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.judge import Judge
from headgate.apiserver.registry import Served
from headgate.apiserver.targets import FieldValidation, Target
from headgate.kubeschema import structural
from headgate.kubeschema.structural import FieldError

Object = dict[str, Any]

_ROOT = frozenset({"apiVersion", "kind", "metadata"})
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class SlowDefaultsError(Exception):
    """Filling in the defaults of an object would block other requests for too long."""


def receive(target: Target, obj: Object) -> list[str]:
    """Check that the object matches the request path, and normalize its metadata.

    Returns messages about unknown fields of metadata.
    """
    _check_kind(target.served, obj)
    complaints = _unknown_fields(metadata.normalize(obj))
    name, namespace = obj["metadata"].get("name"), obj["metadata"].get("namespace")
    if target.name and name and name != target.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    if target.served.namespaced and namespace and namespace != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return complaints


def check_applied(served: Served, applied: Object) -> None:
    """An apply must name the version and kind of its fields; other writes may leave that to the path."""
    if (version := applied.get("apiVersion")) != served.api_version:
        raise errors.bad_request(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{version or ''}, expected: {served.api_version}"
        )
    if not applied.get("kind"):
        raise errors.bad_request(f"Object 'Kind' is missing in the apply patch, expected: {served.kind}")


def prune(served: Served, obj: Object) -> list[str]:
    """Remove fields that the schema does not have; returns messages about them."""
    body = _body(obj)
    unknown, _ = served.prepared.prune(body)
    if served.resource == builtin.DEFINITION:
        unknown = [*unknown, *definitions.prune_schemas(body)]
    _set_body(obj, body)
    return _unknown_fields(unknown)


def admit(
    target: Target,
    new: Object,
    old: Object | None,
    complaints: list[str],
    validation: FieldValidation,
    others: rules.View,
    said: object,
    judge: Judge,
    max_default_bytes: int,
) -> list[str]:
    """Prune, default and validate in place; returns warnings, or raises with all errors at once.

    `said` is what the request itself contains: the object, or the part that a patch names. Raises
    SlowDefaultsError if the object may have more than `max_default_bytes` of defaults, and does.
    """
    served = target.served
    refused = [] if target.subresource else rules.errors_of_written(served.group, served.kind, said)
    builtin.normalize(served.resource, new)
    body = _body(new)
    unknown, lacking = served.prepared.prune(body)
    if served.resource == builtin.DEFINITION:
        unknown = [*unknown, *definitions.prune_schemas(body)]
    complaints = [*complaints, *_unknown_fields(sorted(unknown))]
    if complaints and validation == "Strict":
        raise errors.StrictDecodingError(served.kind, served.version, complaints)
    if unknown:
        _set_body(new, body)
    written = [] if target.subresource else rules.warnings_of_written(new)
    try:
        lacking.fill(body, max_default_bytes)
        was = None if old is None else _as_read(served, old, max_default_bytes)
    except structural.DefaultsTooLarge as error:
        if max_default_bytes < structural.MAX_DEFAULT_BYTES:
            raise SlowDefaultsError from error
        refusal = FieldError("FieldValueTooLong", structural.NO_FIELD, str(error))
        raise target.invalid(refusal) from error
    _set_body(new, body)
    rules.default(new)
    errors_of_schema = judge.validate(served, new, was)
    # A list above its limit may have any length, and rules look at every item.
    is_bounded = all(error.reason != "FieldValueTooMany" for error in errors_of_schema)
    told = _judge(target, new, was, others) if is_bounded else rules.Findings()
    refused += told.errors
    if errors_of_schema or refused:
        raise target.invalid(*rules.merged(errors_of_schema, refused, prefer_rules=not served.custom))
    return [*(complaints if validation == "Warn" else []), *written, *told.warnings]


def _judge(target: Target, new: Object, old: Object | None, others: rules.View) -> rules.Findings:
    """Check the rules that a schema cannot express. A status, written by controllers, has no rules."""
    if target.subresource == "status":
        return rules.Findings()
    return rules.check(new, old, others)


def _as_read(served: Served, old: Object, max_default_bytes: int) -> Object:
    """The stored object with current defaults: a default added after it was stored is not a change."""
    read: Object = msgspec.json.decode(msgspec.json.encode(old))
    structural.default(served.schema, read, max_default_bytes)
    rules.default(read)
    return read


def check_precondition(target: Target, old: Object, new: Object) -> None:
    """Reject an update of a different object than the writer read, or of an outdated version."""
    meta, was = new["metadata"], old["metadata"]
    if (uid := meta.get("uid")) and uid != was["uid"]:
        raise target.conflict(_failed_precondition("UID", uid, was["uid"]))
    if meta.get("resourceVersion") in (None, ""):
        if target.served.custom or target.served.resource in builtin.UPDATED_BY_VERSION:
            detail = "must be specified for an update"
            wrong = FieldError("FieldValueInvalid", "metadata.resourceVersion", detail, 0)
            raise errors.invalid(target.served.group, target.served.plural, target.name, [wrong])
    elif meta["resourceVersion"] != was["resourceVersion"]:
        raise target.conflict(errors.STALE)


def check_delete_preconditions(target: Target, obj: Object, options: DeleteOptions) -> None:
    """Reject deletion of a different object than the one that was meant."""
    wanted, meta = options.preconditions, obj["metadata"]
    if wanted is None:
        return
    for label, asked, present, cause in (
        ("UID", wanted.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", wanted.resource_version, meta["resourceVersion"], "modified"),
    ):
        if asked is not None and asked != present:
            why = (
                f"the {label} in the precondition ({asked}) does not match the {label} in record "
                f"({present}). The object might have been {cause}"
            )
            raise errors.conflict(target.served.group, target.served.kind, target.name, why)


def status_only(old: Object, wanted: Object) -> Object:
    """The old object with the new status; everything else that was sent is ignored."""
    new = copy.deepcopy(old)
    new.pop("status", None)
    if "status" in wanted:
        new["status"] = wanted["status"]
    if "managedFields" in wanted["metadata"]:
        new["metadata"]["managedFields"] = wanted["metadata"]["managedFields"]
    return new


def keep_what_is_not_the_writers(target: Target, old: Object, new: Object) -> None:
    """Restore in `new` what only the server, or another subresource, may change."""
    served, meta, was = target.served, new["metadata"], old["metadata"]
    for name in _SYSTEM_FIELDS:
        meta.pop(name, None)
        if name in was:
            meta[name] = was[name]
    meta["name"] = was["name"]
    if served.namespaced:
        meta["namespace"] = was["namespace"]
    meta.setdefault("managedFields", was.get("managedFields", []))
    builtin.keep(served.resource, old, new, target.subresource)
    if served.resource == builtin.SERVICE:
        service_addresses.keep(old, new)
    if served.has_status and target.subresource != "status":
        new.pop("status", None)
        if "status" in old:
            new["status"] = copy.deepcopy(old["status"])
    if "deletionTimestamp" in was:
        _check_no_new_finalizers(target, was, meta)


def same(old: Object, new: Object) -> bool:
    """Whether nothing changed except the times in managedFields."""
    return _essence(old) == _essence(new)


def desired(served: Served, obj: Object) -> Object:
    """The part of an object whose changes increase its generation."""
    ignored = {"metadata", "status"} if served.has_status else {"metadata"}
    part = {name: value for name, value in obj.items() if name not in ignored}
    if served.resource == builtin.ENDPOINT_SLICE:
        part["labels"] = obj["metadata"].get("labels")
    if served.resource == builtin.POD and isinstance(spec := part.get("spec"), dict):
        part["spec"] = {name: value for name, value in spec.items() if name != "nodeName"}
    return part


def _check_kind(served: Served, obj: Object) -> None:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not api_version and not kind:
        obj["apiVersion"], obj["kind"] = served.api_version, served.kind
        return
    if api_version != served.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version or ''}) does not match the expected API version "
            f"({served.api_version})"
        )
    if kind != served.kind and served.custom and isinstance(kind, str):
        meta = obj.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else ""
        wrong = FieldError("FieldValueInvalid", "kind", f"must be {served.kind}", kind)
        raise errors.invalid(served.group, kind, name if isinstance(name, str) else "", [wrong])
    if kind != served.kind:
        raise errors.bad_request(
            f"the kind in the data ({kind or ''}) does not match the expected kind ({served.kind})"
        )


def _body(obj: Object) -> Object:
    """Everything except the fields that all objects have, which no schema may prune."""
    return {name: value for name, value in obj.items() if name not in _ROOT}


def _set_body(obj: Object, body: Object) -> None:
    """Apply the body to the object: remove missing fields (null counts as missing), set the others."""
    for name in obj.keys() - body.keys() - _ROOT:
        del obj[name]
    obj |= body


def _unknown_fields(paths: Iterable[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths]


def _failed_precondition(label: str, asked: str, present: str) -> str:
    return f"Precondition failed: {label} in precondition: {asked}, {label} in object meta: {present}"


def _check_no_new_finalizers(target: Target, was: Object, meta: Object) -> None:
    added = [name for name in meta.get("finalizers", []) if name not in was.get("finalizers", [])]
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        detail = (
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}"
        )
        raise target.invalid(FieldError("FieldValueForbidden", "metadata.finalizers", detail, None))


def _essence(obj: Object) -> Object:
    meta = obj["metadata"]
    owners = [{k: v for k, v in entry.items() if k != "time"} for entry in meta.get("managedFields") or []]
    return obj | {"metadata": meta | {"managedFields": owners}}
