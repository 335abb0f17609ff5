"""Patches: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

Each takes the current object and may modify it in place; use the result. Server-side apply, the fourth kind,
declares a desired state and is in `ownership`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from headgate.apiserver import errors

Kind = Literal["json", "merge", "strategic"]

MEDIA_TYPES: dict[str, Kind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
KINDS = frozenset(MEDIA_TYPES.values())
APPLY_MEDIA_TYPE = "application/apply-patch+yaml"
ALL_MEDIA_TYPES = (*MEDIA_TYPES, APPLY_MEDIA_TYPE)
CUSTOM_MEDIA_TYPES = ("application/json-patch+json", "application/merge-patch+json", APPLY_MEDIA_TYPE)

MAX_OPERATIONS = 10_000
"""Kubernetes' limit for one JSON patch."""
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Kubernetes' limit for everything one JSON patch copies: sixty doubling copies would fill any memory."""

Schema = dict[str, Any]


class SlowPatchError(Exception):
    """A JSON patch copies too much to run while other requests wait."""


def apply(
    kind: Kind, current: Any, body: Any, schema: Schema, max_copied_bytes: int = MAX_COPIED_BYTES
) -> dict[str, Any]:
    """The patched object; 400 for an invalid patch, 422 for one that does not apply to the object.

    Raises SlowPatchError for a JSON patch that copies more than `max_copied_bytes`, if it may copy that much.
    """
    if kind == "json":
        result = json_patch(current, body, max_copied_bytes)
    elif not isinstance(body, dict):
        raise errors.bad_request(f"a {kind} patch must be an object, not {type(body).__name__}")
    elif kind == "merge":
        result = merge_patch(current, body)
    else:
        result = strategic_merge_patch(current, body, schema)
    if not isinstance(result, dict):
        raise errors.bad_request("the patch replaced the whole object by something that is not an object")
    return result


def shown(kind: Kind, body: Any, changed: dict[str, Any]) -> str:
    """What Kubernetes prints of a patch whose result it cannot decode: the result, or the strategic patch."""
    return _as_go(body) if kind == "strategic" else _sorted(changed)


def _sorted(changed: Any) -> str:
    return msgspec.json.encode(changed, order="sorted").decode()


def _as_go(value: Any) -> str:
    """Go's %v of a JSON value: map[a:1 b:[x y]]."""
    match value:
        case dict():
            return f"map[{' '.join(f'{name}:{_as_go(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_as_go, value))}]"
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
    return str(value)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge_patch(target.get(name), value)
    return target


# -- JSON patch


def json_patch(target: Any, operations: Any, max_copied_bytes: int = MAX_COPIED_BYTES) -> Any:
    """RFC 6902. If any operation fails, the whole patch is rejected. Raises SlowPatchError like `apply`."""
    if not isinstance(operations, list):
        raise errors.bad_request("a JSON patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        told = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise errors.StatusError(413, "RequestEntityTooLarge", told)
    root = {"": target}
    copied = 0
    for number, operation in enumerate(operations):
        try:
            if operation["op"] == "copy":
                copied += _size(_walk(root, _pointer(operation["from"])))
                _check_copied(copied)
                if copied > max_copied_bytes:
                    raise SlowPatchError
            _known(operation["op"])(root, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise _unprocessable(number, operation, error) from error
    return root.get("")


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _check_copied(copied: int) -> None:
    if copied > MAX_COPIED_BYTES:
        told = (
            "Unable to complete the copy, the accumulated size increase of copy is "
            f"{copied}, exceeding the limit {MAX_COPIED_BYTES}"
        )
        raise errors.StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {told}")


def _unprocessable(number: int, operation: Any, error: Exception) -> errors.StatusError:
    known = ("op", "path", "from")
    shown = {k: operation[k] for k in known if k in operation} if isinstance(operation, dict) else operation
    message = (
        "the server rejected our request due to an error in our request: operation "
        f"{number} of the JSON patch, {msgspec.json.encode(shown).decode()}, cannot be done: {_why(error)}"
    )
    return errors.StatusError(422, "Invalid", message, has_details=True)


def _why(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _known(op: Any) -> Callable[[Any, dict[str, Any]], Any]:
    try:
        return _OPERATIONS[op]
    except (KeyError, TypeError):
        known = ", ".join(_OPERATIONS)
        raise ValueError(f"there is no such operation; there are {known}") from None


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise ValueError("a JSON pointer begins with /")
    # The document is stored under the empty name, so that replacing it is not a special case.
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _index(container: list[Any], part: str, *, end: int) -> int:
    if part == "-":
        return end
    if not part.isascii() or not part.isdigit() or (len(part) > 1 and part[0] == "0"):
        raise ValueError(f'"{part}" is no list index')
    index = int(part)
    if index > end:
        raise IndexError(f"index {index} is outside the list")
    return index


def _child(container: Any, part: str) -> Any:
    if isinstance(container, list):
        return container[_index(container, part, end=len(container) - 1)]
    if not isinstance(container, dict) or part not in container:
        raise ValueError(f'there is no "{part}"')
    return container[part]


def _walk(root: Any, parts: list[str]) -> Any:
    for part in parts:
        root = _child(root, part)
    return root


def _add(root: Any, path: str, value: Any) -> None:
    *parents, last = _pointer(path)
    container = _walk(root, parents)
    if isinstance(container, list):
        container.insert(_index(container, last, end=len(container)), value)
    elif isinstance(container, dict):
        container[last] = value
    else:
        raise TypeError("the parent is neither an object nor a list")


def _remove(root: Any, path: str) -> Any:
    *parents, last = _pointer(path)
    container = _walk(root, parents)
    found = _child(container, last)
    if isinstance(container, list):
        del container[_index(container, last, end=len(container) - 1)]
    else:
        del container[last]
    return found


def _replace(root: Any, path: str, value: Any) -> None:
    *parents, last = _pointer(path)
    container = _walk(root, parents)
    _child(container, last)
    if isinstance(container, list):
        container[_index(container, last, end=len(container) - 1)] = value
    else:
        container[last] = value


def _test(root: Any, path: str, value: Any) -> None:
    found = _walk(root, _pointer(path))
    if found != value or isinstance(found, bool) is not isinstance(value, bool):
        raise ValueError("the value is another one (test failed)")


def _move(root: Any, source: str, path: str) -> None:
    if path.startswith(f"{source}/"):
        raise ValueError("a value cannot be moved into itself")
    _add(root, path, _remove(root, source))


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": lambda root, op: _add(root, op["path"], copy.deepcopy(op["value"])),
    "remove": lambda root, op: _remove(root, op["path"]),
    "replace": lambda root, op: _replace(root, op["path"], copy.deepcopy(op["value"])),
    "test": lambda root, op: _test(root, op["path"], op["value"]),
    "copy": lambda root, op: _add(root, op["path"], copy.deepcopy(_walk(root, _pointer(op["from"])))),
    "move": lambda root, op: _move(root, op["from"], op["path"]),
}


# -- strategic merge patch

_DELETE_VALUES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"
_DIRECTIVE = "$patch"


def strategic_merge_patch(target: Any, patch: dict[str, Any], schema: Schema) -> Any:
    """Kubernetes' own patch: lists merge by key if the schema has `x-kubernetes-patch-merge-key`."""
    if not isinstance(target, dict):
        target = {}
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        return _without_directives(patch)
    if directive not in (None, "merge"):
        raise errors.bad_request(f'Unknown patch directive: "{directive}"; known are delete, merge, replace')
    if isinstance(listed := patch.get(_RETAIN), list):
        retained = {name for name in listed if isinstance(name, str)}
        target = {name: value for name, value in target.items() if name in retained}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        _merge_field(target, name, value, patch, _field_schema(schema, name))
    _delete_values(target, patch)
    return target


def _merge_field(
    target: dict[str, Any], name: str, value: Any, patch: dict[str, Any], schema: Schema
) -> None:
    if value is None:
        target.pop(name, None)
    elif isinstance(value, dict):
        target[name] = strategic_merge_patch(target.get(name), value, schema)
    elif isinstance(value, list) and "merge" in _strategies(schema):
        target[name] = _merge_list(target.get(name), value, patch.get(_ORDER + name), schema, name)
    else:
        target[name] = _without_directives(value)


def _merge_list(current: Any, patch: list[Any], order: Any, schema: Schema, name: str) -> list[Any]:
    items = list(current) if isinstance(current, list) else []
    key = schema.get("x-kubernetes-patch-merge-key")
    if key is None:
        merged = {_identity(value): value for value in (*items, *patch)}
        if order is None:
            return _placed(list(merged.values()), items, patch, lambda value: value)
        return _in_order(list(merged.values()), order, lambda value: value)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_without_directives(i) for i in patch if not (isinstance(i, dict) and _DIRECTIVE in i)]
    before = list(items)
    items = _merge_items(items, patch, key, schema.get("items", {}), name)
    if order is None:
        return _placed(items, before, patch, lambda item: item.get(key))
    order_keys = (
        [item.get(key) for item in order if isinstance(item, dict)] if isinstance(order, list) else None
    )
    return _in_order(items, order_keys, lambda item: item.get(key))


def _merge_items(items: list[Any], patch: list[Any], key: str, schema: Schema, name: str) -> list[Any]:
    """If several items have the same key, only the first changes; deletion removes all of them."""
    places: dict[bytes, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(_identity(item.get(key)), []).append(place)
    gone: set[int] = set()
    for wanted in patch:
        if not isinstance(wanted, dict) or key not in wanted:
            raise errors.bad_request(
                f'{name}: each item of a strategic merge patch needs its merge key "{key}"'
            )
        identity = _identity(wanted[key])
        if wanted.get(_DIRECTIVE) == "delete":
            gone.update(places.pop(identity, ()))
        elif identity in places:
            place = places[identity][0]
            items[place] = strategic_merge_patch(items[place], wanted, schema)
        else:
            places[identity] = [len(items)]
            items.append(strategic_merge_patch({}, wanted, schema))
    return [item for place, item in enumerate(items) if place not in gone]


def _placed(items: list[Any], before: list[Any], patch: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Items that a patch names come in its order; those it adds come before the others that are left."""
    places = {_identity(key(item)): place for place, item in reversed(list(enumerate(before)))}
    wanted = {_identity(key(item)): rank for rank, item in reversed(list(enumerate(patch)))}
    named = sorted(
        (item for item in items if _identity(key(item)) in wanted), key=lambda i: wanted[_identity(key(i))]
    )
    others = [item for item in items if _identity(key(item)) not in wanted]
    placed: list[Any] = []
    for item in named:
        place = places.get(_identity(key(item)), -1)
        while others and places[_identity(key(others[0]))] < place:
            placed.append(others.pop(0))
        placed.append(item)
    return placed + others


def _in_order(items: list[Any], order: Any, key: Callable[[Any], Any]) -> list[Any]:
    """Order the items as given; items that are not mentioned keep their places."""
    if not isinstance(order, list):
        return items
    ranks = {_identity(wanted): rank for rank, wanted in reversed(list(enumerate(order)))}
    ranked = [(ranks.get(_identity(key(item))), item) for item in items]
    named = iter(sorted((each for each in ranked if each[0] is not None), key=lambda each: each[0] or 0))
    return [item if rank is None else next(named)[1] for rank, item in ranked]


def _delete_values(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for directive, values in patch.items():
        if directive.startswith(_DELETE_VALUES) and isinstance(values, list):
            name = directive.removeprefix(_DELETE_VALUES)
            if isinstance(current := target.get(name), list):
                gone = {_identity(value) for value in values}
                target[name] = [value for value in current if _identity(value) not in gone]


def _identity(value: Any) -> bytes:
    """A hashable key, so that a long list is not searched for each of its items."""
    return msgspec.json.encode(value, order="deterministic")


def _field_schema(schema: Schema, name: str) -> Schema:
    found = schema.get("properties", {}).get(name)
    if found is None:
        additional = schema.get("additionalProperties")
        found = additional if isinstance(additional, dict) else {}
    return found if isinstance(found, dict) else {}


def _strategies(schema: Schema) -> list[str]:
    return str(schema.get("x-kubernetes-patch-strategy", "")).split(",")


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: _without_directives(v) for k, v in value.items() if not k.startswith("$") and v is not None
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value
