"""Field ownership (metadata.managedFields), and server-side apply based on it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headgate.apiserver import builtin, errors, fieldset
from headgate.apiserver.fieldset import Path, Schema
from headgate.apiserver.registry import Served
from headgate.apiserver.targets import Target
from headgate.kubeschema.structural import MAX_DEPTH

Object = dict[str, Any]

MAX_UPDATE_MANAGERS = 10
"""Above this, the oldest entries are merged, so that changing manager names cannot fill the object."""
ANCIENT = "ancient-changes"
BEFORE = "before-first-apply"
"""Owns the fields of an object without owners once it is applied."""

_SYSTEM_METADATA = frozenset(
    f"f:{name}"
    for name in (
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    )
)
_UNOWNED = frozenset(("f:metadata", name) for name in _SYSTEM_METADATA)


class Owner(NamedTuple):
    """The identity of an entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@dataclass
class Claim:
    """The fields of one owner, and the time of the last change."""

    fields: set[Path] = field(default_factory=set)
    time: str = ""


@dataclass(frozen=True)
class Applied:
    """The object that an apply results in; must not be stored if there are conflicts."""

    obj: Object
    conflicts: list[tuple[str, str]]
    """(owner, field) pairs, as Kubernetes prints them."""


def claim_all(served: Served, new: Object, manager: str, now: str) -> None:
    """Record this manager as the owner of a whole new object, like `record` without an old object."""
    fields = served.claims(_ownable(served, new, ""))
    fields.pop(".", None)
    for path in _always_present(served):
        _disown(fields, path)
    unclaimed = {*_SYSTEM_METADATA, "."}
    meta = {name: node for name, node in fields.pop("f:metadata", {}).items() if name not in unclaimed}
    if meta:
        fields = {"f:metadata": meta, **fields}
    new["metadata"].pop("managedFields", None)
    if fields:
        owner = Owner(manager, "Update", served.api_version, "")
        new["metadata"]["managedFields"] = [_entry(owner, dict(sorted(fields.items())), now)]


def record(served: Served, old: Object | None, new: Object, manager: str, subresource: str, now: str) -> None:
    """Record this manager in `new` as the sole owner of the differences from `old`.

    An object without any owner stays so until somebody applies it.
    """
    if old is not None and not new["metadata"].get("managedFields"):
        new["metadata"].pop("managedFields", None)
        return
    before = _owned(served, old, subresource, composed=True) if old else {}
    after = _owned(served, new, subresource, composed=True)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    claims = _decode(new["metadata"].get("managedFields") or [])
    owner = Owner(manager, "Update", served.api_version, subresource)
    for other, claim in claims.items():
        claim.fields -= gone if other == owner else gone | changed
    if changed:
        mine = claims.setdefault(owner, Claim())
        if not changed <= mine.fields or not mine.time:
            mine.fields |= changed
        mine.time = now
    _store(new, claims)


def apply(
    served: Served, live: Object, applied: Object, manager: str, subresource: str, now: str, *, force: bool
) -> Applied:
    """Merge a manager's fields into the live object, and remove the ones it no longer applies."""
    wanted = _without_nulls(applied)
    fields = _owned(served, wanted, subresource)
    if not subresource and served.has_status:
        wanted.pop("status", None)
    claims = _decode(live.get("metadata", {}).get("managedFields") or [])
    if live and not claims:
        present = _owned(served, live, subresource, composed=True)
        claims[Owner(BEFORE, "Update", served.api_version, "")] = Claim(set(present), now)
    owner = Owner(manager, "Apply", served.api_version, subresource)
    merged = fieldset.merge(live, wanted, served.merge_schema)
    # Compare with the merged object: an empty map merged into a full one changes nothing.
    present, after = _owned(served, live, subresource), _owned(served, merged, subresource)
    changing = {
        path for path in fields if present.get(path, fieldset.MISSING) != after.get(path, fieldset.MISSING)
    }
    others_by_name = sorted((each for each in claims.items() if each[0] != owner), key=lambda each: each[0])
    conflicts = [(o, path) for o, c in others_by_name for path in sorted(c.fields & changing, key=_rank)]
    if conflicts and not force:
        return Applied(live, [(str(other), fieldset.shown(path)) for other, path in conflicts])
    for other, path in conflicts:
        claims[other].fields.discard(path)
    mine = claims.setdefault(owner, Claim())
    others = [claim for other, claim in claims.items() if other != owner]
    dropped = _droppable(mine.fields - fields.keys(), [claim.fields for claim in others])
    merged = fieldset.remove(merged, dropped, served.merge_schema)
    gone = _composed(served, live, subresource) - _composed(served, merged, subresource)
    for claim in others:
        claim.fields -= {path for path in claim.fields if path in gone or _is_below(path, dropped)}
    if mine.fields != fields.keys() or merged != live:
        mine.fields, mine.time = set(fields), now
    merged = copy.deepcopy(merged)
    _store(merged, claims)
    return Applied(merged, [])


def _rank(path: Path) -> list[tuple[bool, str]]:
    """Orders fields as Kubernetes does: on each level, those without contents come first."""
    return [(depth < len(path), element) for depth, element in enumerate(path, start=1)]


def _droppable(candidates: Iterable[Path], others: list[set[Path]]) -> set[Path]:
    """The candidates that no other manager owns.

    A map is also owned by managers of its contents. A list item is not: it is removed with all its contents
    when the last manager that applied it, and thereby its keys, no longer does.
    """
    held = {
        path[:depth]
        for fields in others
        for path in fields
        for depth in range(1, len(path) + 1)
        if depth == len(path) or path[depth - 1].startswith("f:")
    }
    return {path for path in candidates if path not in held}


def _is_below(path: Path, tops: set[Path]) -> bool:
    return any(path[:depth] in tops for depth in range(1, len(path)))


def _owned(served: Served, obj: Object, subresource: str, *, composed: bool = False) -> dict[Path, Any]:
    """The fields that a write through this subresource can own; `composed` as for `fieldset.leaves`."""
    leaves = fieldset.leaves(_ownable(served, obj, subresource), served.merge_schema, composed=composed)
    owned = {p: v for p, v in leaves if p and p[:2] not in _UNOWNED and p != ("f:metadata",)}
    if composed:
        for path in _always_present(served):
            if path in owned and owned[path] in (fieldset.ITEM, {}, []):
                del owned[path]
    return owned


def _composed(served: Served, obj: Object, subresource: str) -> set[Path]:
    """The maps and lists with contents."""
    owned = _owned(served, obj, subresource, composed=True)
    return {path for path, value in owned.items() if value is fieldset.ITEM and not path[-1].startswith("k:")}


def _always_present(served: Served) -> tuple[Path, ...]:
    """Maps and lists that every object has in Kubernetes' Go types, so that nobody adds them."""
    return () if served.custom else builtin.ALWAYS_PRESENT.get(served.resource, ())


def _disown(fields: Object, path: Path) -> None:
    """Remove a map or list from fieldsV1, but not its contents."""
    for element in path[:-1]:
        fields = fields.get(element, {})
    if own := fields.get(path[-1]):
        own.pop(".", None)
    else:
        fields.pop(path[-1], None)


def _ownable(served: Served, obj: Object, subresource: str) -> Object:
    """The part of an object that a write through this subresource can change."""
    if subresource == "status":
        return {"status": obj["status"]} if "status" in obj else {}
    skipped = {"apiVersion", "kind", *(("status",) if served.has_status else ())}
    if served.resource == builtin.NAMESPACE:
        skipped.add("spec")  # the server's finalizers
    return {name: value for name, value in obj.items() if name not in skipped}


def _without_nulls(value: Any) -> Any:
    """A copy without null fields: applying null means not applying the field."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _decode(entries: list[Any]) -> dict[Owner, Claim]:
    claims: dict[Owner, Claim] = {}
    for entry in entries:
        owner = Owner(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        claim = claims.setdefault(owner, Claim())
        claim.fields |= set(fieldset.decode(entry.get("fieldsV1")))
        claim.time = entry.get("time") or ""
    return claims


def _store(obj: Object, claims: dict[Owner, Claim]) -> None:
    owned = [(owner, claim) for owner, claim in _capped(claims).items() if claim.fields]
    owned.sort(key=lambda each: (each[0].operation, each[1].time, each[0]))
    entries = [_entry(owner, fieldset.encode(claim.fields), claim.time) for owner, claim in owned]
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def _capped(claims: dict[Owner, Claim]) -> dict[Owner, Claim]:
    updates = sorted(
        ((o, c) for o, c in claims.items() if o.operation == "Update" and c.fields), key=lambda oc: oc[1].time
    )
    surplus = updates[: max(0, len(updates) - MAX_UPDATE_MANAGERS)]
    if not surplus:
        return claims
    kept = dict(claims)
    for owner, claim in surplus:
        del kept[owner]
        ancient = kept.setdefault(owner._replace(manager=ANCIENT), Claim())
        ancient.fields |= claim.fields
        ancient.time = max(ancient.time, claim.time)
    return kept


def _entry(owner: Owner, fields: dict[str, Any], time: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owner.api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


# Undeclared fields: server-side apply rejects an object with fields that its schema does not have.
#
# Other writes drop such fields, or reject them if validation is strict; an apply declares which fields it
# owns, and fields that cannot be stored cannot be owned.
_KEEP = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_OF_RESOURCES = frozenset({"apiVersion", "kind", "metadata"})


def check_declared(target: Target, applied: dict[str, Any]) -> None:
    """400 with the path of every undeclared field: `.spec.containers[name="a"].imgae`."""
    schema = target.served.merge_schema
    body = {name: value for name, value in applied.items() if name not in ("apiVersion", "kind")}
    found = [f"{path}: field not declared in schema" for path in _undeclared(body, schema, "", 0)]
    if not found:
        return
    told = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found[: errors.MAX_CAUSES]])
    kind = f"{target.served.group}/{target.served.version}, Kind={target.served.kind}"
    meta = applied.get("metadata")
    own = meta if isinstance(meta, dict) else {}
    of = f"{own.get('namespace', '')}/{own.get('name', '')}; {kind}"
    raise errors.bad_request(f"failed to create typed patch object ({of}): {told}")


def _undeclared(value: Any, schema: Schema, path: str, depth: int) -> Iterator[str]:
    if depth >= MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield from _undeclared_fields(value, schema, path, depth)
    elif isinstance(value, list):
        items = schema.get("items", {})
        how = fieldset.listing(schema, value)
        for index, item in enumerate(value):
            if how.keys:
                element = fieldset.item_element(item, how.keys, schema) or ""
                at = path + fieldset.shown((element,))
            else:
                at = f"{path}[{index}]"
            yield from _undeclared(item, items, at, depth + 1)


def _undeclared_fields(value: dict[str, Any], schema: Schema, path: str, depth: int) -> Iterator[str]:
    """A schema without named fields leaves them to pruning."""
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    names_them = bool(properties) and not additional and not schema.get(_KEEP)
    for name, inner in value.items():
        at = f"{path}.{name}"
        if name in properties or isinstance(additional, dict):
            yield from _undeclared(inner, fieldset.child(schema, name), at, depth + 1)
        elif names_them and not (schema.get(_EMBEDDED) and name in _OF_RESOURCES):
            yield at
