"""OpenAPI v3, one document for each group version.

`kubectl explain` reads it, and kubectl uses it to detect whether the server validates fields (if the PATCH
operation has a parameter `fieldValidation`).
"""

from __future__ import annotations

from typing import Any

from headgate.apiserver import metadata, patch, scale
from headgate.apiserver.registry import Registry, Served

Object = dict[str, Any]

_META_PACKAGE = "io.k8s.apimachinery.pkg.apis.meta.v1"
_OBJECT_META = f"{_META_PACKAGE}.ObjectMeta"
_LIST_META = f"{_META_PACKAGE}.ListMeta"
_STATUS = f"{_META_PACKAGE}.Status"
_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_API_VERSION = "APIVersion defines the versioned schema of this representation of an object."
_KIND = "Kind is a string value representing the REST resource this object represents."


V2_DOCUMENT: Object = {"swagger": "2.0", "info": {"title": "Headgate", "version": "v1"}, "paths": {}}
"""OpenAPI v2 without schemas: kubectl requests it for a `v1 List`, to validate its items. It leaves kinds
that are missing here to the server, which does validate them.
"""
V2_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_ANSWERED = V2_ASKED.replace("@", ".")
"""A Content-Type must not contain an @, so Kubernetes responds with another name than requested."""


def v2_protobuf() -> bytes:
    """`V2_DOCUMENT` as a gnostic openapi.v2.Document: 1 swagger, 2 info (1 title, 2 version), 8 paths."""
    info = V2_DOCUMENT["info"]
    named = _field(1, info["title"].encode()) + _field(2, info["version"].encode())
    return _field(1, V2_DOCUMENT["swagger"].encode()) + _field(2, named) + _field(8, b"")


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field, for numbers below 16 and fewer than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


def document(registry: Registry, group: str, version: str) -> Object | None:
    """The document of a group version, or None if it is undefined."""
    kinds = registry.kinds(group, version)
    if not kinds:
        return None
    paths: Object = {}
    schemas: Object = {_OBJECT_META: metadata.SCHEMA, _LIST_META: _list_meta(), _STATUS: _STATUS_SCHEMA}
    for served in kinds:
        schemas[_schema_name(served, served.kind)] = _kind_schema(served)
        schemas[_schema_name(served, served.list_kind)] = _list_schema(served)
        paths |= _paths(served)
        if served.scale:
            schemas[_SCALE] = scale.SCHEMA | _gvk(scale.GROUP, scale.VERSION, scale.KIND)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Headgate", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _schema_name(served: Served, kind: str) -> str:
    """The group's domain reversed, then version and kind, as Kubernetes names schemas."""
    if not served.custom:
        group = served.group.partition(".")[0] or "core"
        return f"io.k8s.api.{group}.{served.version}.{kind}"
    return ".".join([*reversed(served.group.split(".")), served.version, kind])


def _ref(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def _gvk(group: str, version: str, kind: str) -> Object:
    return {"x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}]}


def _kind_schema(served: Served) -> Object:
    # Including merge strategies, from which kubectl computes strategic merge patches.
    schema = _with_alternatives(served.schema) if served.custom else served.merge_schema
    properties = dict(schema.get("properties", {}))
    properties["apiVersion"] = {"type": "string", "description": _API_VERSION}
    properties["kind"] = {"type": "string", "description": _KIND}
    properties["metadata"] = {
        "description": "Standard object's metadata.",
        "allOf": [_ref(_OBJECT_META)],
        **({} if served.custom else {"default": {}}),
    }
    own = _gvk(served.group, served.version, served.kind)
    return {"description": served.kind, **schema, "properties": properties, **own}


def _with_alternatives(schema: Object) -> Object:
    """The schema of a custom kind, in which int-or-string values have both types."""
    made = dict(schema)
    if made.get("x-kubernetes-int-or-string") and "anyOf" not in made:
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = _with_alternatives(made[name])
    if "properties" in made:
        fields = made["properties"].items()
        made["properties"] = {name: _with_alternatives(field) for name, field in fields}
    return made


def _list_schema(served: Served) -> Object:
    items = {"type": "array", "items": {"allOf": [_ref(_schema_name(served, served.kind))]}}
    return {
        "type": "object",
        "description": f"{served.list_kind} is a list of {served.kind}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": {"allOf": [_ref(_LIST_META)]},
            "items": items,
        },
        **_gvk(served.group, served.version, served.list_kind),
    }


def _list_meta() -> Object:
    names = ("continue", "resourceVersion", "selfLink")
    properties: Object = {name: {"type": "string"} for name in names}
    properties["remainingItemCount"] = {"type": "integer", "format": "int64"}
    return {"type": "object", "description": "Metadata of a list.", "properties": properties}


_STATUS_SCHEMA: Object = {
    "type": "object",
    "description": "Result of a request that returns no object.",
    "properties": {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {"allOf": [_ref(_LIST_META)]},
        "status": {"type": "string", "description": "Success or Failure."},
        "message": {"type": "string", "description": "What happened, for people."},
        "reason": {"type": "string", "description": "What happened, in one word for programs."},
        "code": {"type": "integer", "format": "int32", "description": "The HTTP status."},
        "details": {
            "type": "object",
            "description": "What it is about.",
            "properties": {
                "name": {"type": "string", "description": "Name of the object."},
                "group": {"type": "string", "description": "Group of the object."},
                "kind": {"type": "string", "description": "Resource or kind of the object."},
                "uid": {"type": "string", "description": "UID of the object."},
                "retryAfterSeconds": {
                    "type": "integer",
                    "format": "int32",
                    "description": "When to try again.",
                },
                "causes": {
                    "type": "array",
                    "description": "All errors, by field.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": {"type": "string", "description": "Path of the field."},
                            "message": {"type": "string", "description": "Description of the error."},
                            "reason": {"type": "string", "description": "Machine-readable reason."},
                        },
                    },
                },
            },
        },
    },
    **_gvk("", "v1", "Status"),
}


# -- operations

_DRY_RUN = ("dryRun", "string", "All: validate without storing anything.")
_MANAGER = ("fieldManager", "string", "Name of the writer, for field ownership.")
_VALIDATION = ("fieldValidation", "string", "Unknown and duplicate fields: Ignore, Warn or Strict.")
_FORCE = ("force", "boolean", "Take fields over from other managers (apply only).")
_LIST = (
    ("allowWatchBookmarks", "boolean", "Send bookmarks to a watch."),
    ("continue", "string", "Token of the next page of a list."),
    ("fieldSelector", "string", "Only objects with these fields."),
    ("labelSelector", "string", "Only objects with these labels."),
    ("limit", "integer", "Size of a page."),
    ("resourceVersion", "string", "Resource version from which a watch begins."),
    ("sendInitialEvents", "boolean", "Begin a watch with the existing objects."),
    ("timeoutSeconds", "integer", "How long a watch lasts."),
    ("watch", "boolean", "Stream changes instead of a list."),
)
_WRITE = (_DRY_RUN, _MANAGER, _VALIDATION)
Parameters = tuple[tuple[str, str, str], ...]


def _paths(served: Served) -> Object:
    root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
    place = (
        f"{root}/namespaces/{{namespace}}/{served.plural}" if served.namespaced else f"{root}/{served.plural}"
    )
    collection = {
        "get": _operation(served, "list", _LIST),
        "post": _operation(served, "post", _WRITE, body=True),
        "delete": _operation(served, "deletecollection", (_DRY_RUN, *_LIST)),
    }
    if served.verbs == ("create",):
        return {place: _at({"post": collection["post"]}, served.namespaced)}
    single = {
        "get": _operation(served, "get"),
        "put": _operation(served, "put", _WRITE, body=True),
        "patch": _patch_operation(served),
        "delete": _operation(served, "delete", (_DRY_RUN,)),
    }
    paths = {
        place: _at(collection, served.namespaced),
        f"{place}/{{name}}": _at(single, served.namespaced, "name"),
    }
    if served.namespaced:
        paths[f"{root}/{served.plural}"] = {"get": _operation(served, "list", _LIST)}
    for name in served.subresources:
        operations = {verb: single[verb] for verb in ("get", "put", "patch")}
        if name == "scale":
            operations = {verb: _of_scale(operation) for verb, operation in operations.items()}
        paths[f"{place}/{{name}}/{name}"] = _at(operations, served.namespaced, "name")
    return paths


def _at(operations: Object, namespaced: bool, *names: str) -> Object:
    places = (*(("namespace",) if namespaced else ()), *names)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in places
    ]
    return {**operations, "parameters": parameters} if parameters else dict(operations)


def _operation(served: Served, action: str, parameters: Parameters = (), *, body: bool = False) -> Object:
    schema = _ref(_schema_name(served, served.kind))
    content = {"application/json": {"schema": schema}}
    operation: Object = {
        "responses": _responses(served, action, schema),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": served.group,
            "version": served.version,
            "kind": served.kind,
        },
    }
    if parameters:
        operation["parameters"] = [
            {"name": name, "in": "query", "description": text, "schema": {"type": type_}}
            for name, type_, text in parameters
        ]
    if body:
        operation["requestBody"] = {"content": content}
    return operation


def _of_scale(operation: Object) -> Object:
    """Convert an operation on an object to one on its Scale."""
    content = {"application/json": {"schema": _ref(_SCALE)}}
    responses = {
        code: response if code == "default" else {**response, "content": content}
        for code, response in operation["responses"].items()
    }
    kind = {"group": scale.GROUP, "version": scale.VERSION, "kind": scale.KIND}
    changed = {**operation, "responses": responses, "x-kubernetes-group-version-kind": kind}
    if operation["x-kubernetes-action"] == "put":
        changed["requestBody"] = {"content": content}
    return changed


def _responses(served: Served, action: str, schema: Object) -> Object:
    """The responses of an operation: the success responses, and a Status for errors."""
    if action in ("list", "deletecollection"):
        schema = _ref(_schema_name(served, served.list_kind))
    elif action == "delete":
        # The object if something still blocks its removal, or if it is a Pod.
        schema = {"anyOf": [_ref(_STATUS), schema]}
    done = {"application/json": {"schema": schema}}
    refused = {"application/json": {"schema": _ref(_STATUS)}}
    codes = {"post": ("201",), "patch": ("200", "201")}.get(action, ("200",))
    return {code: {"description": _DONE[code], "content": done} for code in codes} | {
        "default": {"description": "Refused", "content": refused}
    }


_DONE = {"200": "OK", "201": "Created"}


def _patch_operation(served: Served) -> Object:
    taken = patch.CUSTOM_MEDIA_TYPES if served.custom else patch.ALL_MEDIA_TYPES
    operation = _operation(served, "patch", (*_WRITE, _FORCE))
    operation["requestBody"] = {"content": {media: {"schema": {"type": "object"}} for media in taken}}
    return operation
