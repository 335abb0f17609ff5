"""The patches that say what to change: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

Each takes the current object and may change it in place; the result is what counts. Server-side apply, the
fourth, says what somebody wants and is in `ownership`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from headgate.apiserver import errors

Kind = Literal["json", "merge", "strategic"]

MEDIA_TYPES: dict[str, Kind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
APPLY_MEDIA_TYPE = "application/apply-patch+yaml"
ALL_MEDIA_TYPES = (*MEDIA_TYPES, APPLY_MEDIA_TYPE)
CUSTOM_MEDIA_TYPES = ("application/json-patch+json", "application/merge-patch+json", APPLY_MEDIA_TYPE)

MAX_OPERATIONS = 10_000
"""Kubernetes' limit for one JSON patch."""

Schema = dict[str, Any]


def apply(kind: Kind, current: Any, body: Any, schema: Schema) -> dict[str, Any]:
    """The patched object; 400 for a patch that is none, 422 for one that does not fit the object."""
    if kind == "json":
        result = json_patch(current, body)
    elif not isinstance(body, dict):
        raise errors.bad_request(f"a {kind} patch must be an object, not {type(body).__name__}")
    elif kind == "merge":
        result = merge_patch(current, body)
    else:
        result = strategic_merge_patch(current, body, schema)
    if not isinstance(result, dict):
        raise errors.bad_request("the patch replaced the whole object by something that is not an object")
    return result


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


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. Any operation that fails refuses the whole patch."""
    if not isinstance(operations, list):
        raise errors.bad_request("a JSON patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise errors.too_large(MAX_OPERATIONS)
    root = {"": target}
    for number, operation in enumerate(operations):
        try:
            _OPERATIONS[operation["op"]](root, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise _unprocessable(number, operation, error) from error
    return root.get("")


def _unprocessable(number: int, operation: Any, error: Exception) -> errors.StatusError:
    shown = (
        {k: operation[k] for k in ("op", "path", "from") if k in operation}
        if isinstance(operation, dict)
        else operation
    )
    message = (
        "the server rejected our request due to an error in our request: "
        f"operation {number} of the JSON patch, {shown}, cannot be done: {error}"
    )
    return errors.StatusError(422, "Invalid", message)


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise ValueError(f"{text!r} is no JSON pointer; it must begin with /")
    # The document hangs under the empty name, so that its replacement is no special case.
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _index(container: list[Any], part: str, *, end: int) -> int:
    if part == "-":
        return end
    if not part.isascii() or not part.isdigit() or (len(part) > 1 and part[0] == "0"):
        raise ValueError(f"{part!r} is no list index")
    index = int(part)
    if index > end:
        raise IndexError(f"index {index} is outside the list")
    return index


def _child(container: Any, part: str) -> Any:
    if isinstance(container, list):
        return container[_index(container, part, end=len(container) - 1)]
    if not isinstance(container, dict) or part not in container:
        raise KeyError(f"there is no {part!r}")
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
    """Kubernetes' own patch: lists merge by key where the schema has `x-kubernetes-patch-merge-key`."""
    if not isinstance(target, dict):
        target = {}
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        return _without_directives(patch)
    if directive not in (None, "merge"):
        raise errors.bad_request(f"Unknown patch directive: {directive!r}; known are delete, merge, replace")
    if isinstance(retained := patch.get(_RETAIN), list):
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
        for value in patch:
            if value not in items:
                items.append(value)
        return _in_order(items, order, lambda value: value)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_without_directives(i) for i in patch if not (isinstance(i, dict) and _DIRECTIVE in i)]
    for wanted in patch:
        if not isinstance(wanted, dict) or key not in wanted:
            raise errors.bad_request(
                f"{name}: each item of a strategic merge patch needs its merge key {key!r}"
            )
        at = next((i for i, item in enumerate(items) if item.get(key) == wanted[key]), None)
        if wanted.get(_DIRECTIVE) == "delete":
            items = [item for item in items if item.get(key) != wanted[key]]
        elif at is None:
            items.append(strategic_merge_patch({}, wanted, schema.get("items", {})))
        else:
            items[at] = strategic_merge_patch(items[at], wanted, schema.get("items", {}))
    order_keys = (
        [item.get(key) for item in order if isinstance(item, dict)] if isinstance(order, list) else None
    )
    return _in_order(items, order_keys, lambda item: item.get(key))


def _in_order(items: list[Any], order: Any, key: Callable[[Any], Any]) -> list[Any]:
    """The items that the order names come in that order; the others keep their places."""
    if not isinstance(order, list):
        return items
    named = iter(sorted((i for i in items if key(i) in order), key=lambda item: order.index(key(item))))
    return [next(named) if key(item) in order else item for item in items]


def _delete_values(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for directive, values in patch.items():
        if directive.startswith(_DELETE_VALUES) and isinstance(values, list):
            name = directive.removeprefix(_DELETE_VALUES)
            if isinstance(current := target.get(name), list):
                target[name] = [value for value in current if value not in values]


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
