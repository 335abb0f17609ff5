"""Validation of a CustomResourceDefinition beyond its schema, before its kind is served."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from headgate.apiserver.jsonpath import JSONPath
from headgate.apiserver.registry import Registry
from headgate.kubeschema import structural
from headgate.kubeschema.structural import FieldError

Object = dict[str, Any]

PROTECTED_DOMAINS = (".k8s.io", ".kubernetes.io")
"""Groups under these domains need approval from the Kubernetes community, named in an annotation."""
APPROVAL = "api-approved.kubernetes.io"
_NEEDS_APPROVAL = (
    f'protected groups must have approval annotation "{APPROVAL}", '
    "see https://github.com/kubernetes/enhancements/pull/1111"
)
MAX_SELECTABLE = 8
MAX_COLUMNS = 64
"""Printer columns of a version. Kubernetes has no limit; each is computed for each row of a Table."""
MAX_WARNING = 256
_PLAIN_PATH = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_]*)+")
_SCALE_PATHS = (
    ("specReplicasPath", (".spec",), False),
    ("statusReplicasPath", (".status",), False),
    ("labelSelectorPath", (".spec", ".status"), True),
)
"""Fields of the scale subresource, where their paths may begin, and whether they are optional."""
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_VERSION = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")


CheckSchema: TypeAlias = Callable[[structural.Schema, str], list[FieldError]]
"""Takes a schema and its field path; returns its errors."""


def faults(
    definition: Object,
    old: Object | None,
    registry: Registry,
    check: CheckSchema = structural.check,
) -> list[FieldError]:
    """All errors in a definition that conforms to its schema."""
    builtins = {served.group for served in registry if not served.custom}
    found = [*_name_faults(definition, builtins), *_version_faults(definition["spec"]["versions"], check)]
    if old is not None:
        found += _change_faults(old["spec"], definition["spec"])
    if not found and (conflict := registry.name_conflict(definition)):
        found.append(_invalid("spec.names", conflict, definition["spec"]["names"]["plural"]))
    return found


def _invalid(field: str, detail: str, value: object) -> FieldError:
    return FieldError("FieldValueInvalid", field, detail, value)


def _name_faults(definition: Object, builtins: set[str]) -> Iterator[FieldError]:
    spec, name = definition["spec"], definition["metadata"]["name"]
    names, group = spec["names"], spec["group"]
    if name != f"{names['plural']}.{group}":
        yield _invalid("metadata.name", 'must be spec.names.plural+"."+spec.group', name)
    if not _DNS_LABEL.fullmatch(names["plural"]):
        yield _invalid("spec.names.plural", "must be a DNS label in lower case", names["plural"])
    if not _KIND.fullmatch(names["kind"]):
        yield _invalid("spec.names.kind", "must be letters and digits", names["kind"])
    if group in builtins or "." not in group:
        detail = "should be a domain with at least one dot, and not a group of Kubernetes"
        yield _invalid("spec.group", detail, group)
    elif group.endswith(PROTECTED_DOMAINS) and not (definition["metadata"].get("annotations") or {}).get(
        APPROVAL
    ):
        field = f"metadata.annotations[{APPROVAL}]"
        yield FieldError("FieldValueRequired", field, _NEEDS_APPROVAL)


def _version_faults(versions: list[Object], check: CheckSchema) -> Iterator[FieldError]:
    if sum(bool(version["storage"]) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield _invalid("spec.versions", detail, [version["name"] for version in versions])
    names = [version["name"] for version in versions]
    if len(set(names)) < len(names):
        yield _invalid("spec.versions", "must contain unique version names", names)
    for index, version in enumerate(versions):
        field = f"spec.versions[{index}]"
        if not _VERSION.fullmatch(version["name"]):
            yield _invalid(f"{field}.name", "must be a DNS label", version["name"])
        yield from _schema_faults((version.get("schema") or {}).get("openAPIV3Schema"), field, check)
        yield from _column_faults(version, f"{field}.additionalPrinterColumns")
        yield from _selectable_faults(version, f"{field}.selectableFields")
        yield from _scale_faults(version, f"{field}.subresources.scale")
        yield from _deprecation_faults(version, field)


def _schema_faults(schema: Any, field: str, check: CheckSchema) -> Iterator[FieldError]:
    field = f"{field}.schema.openAPIV3Schema"
    if not isinstance(schema, dict) or not schema:
        yield FieldError("FieldValueRequired", field, "schemas are required")
    elif schema.get("type") != "object":
        yield _invalid(f"{field}.type", "must be object at the root", schema.get("type"))
    else:
        yield from check(schema, field)


def _column_faults(version: Object, field: str) -> Iterator[FieldError]:
    columns = version.get("additionalPrinterColumns") or []
    if len(columns) > MAX_COLUMNS:
        detail = f"must have at most {MAX_COLUMNS} items"
        yield FieldError("FieldValueTooMany", field, detail, len(columns))
    for number, column in enumerate(columns[:MAX_COLUMNS]):
        try:
            JSONPath.parse(column["jsonPath"])
        except ValueError as error:
            yield _invalid(f"{field}[{number}].jsonPath", str(error), column["jsonPath"])


def _deprecation_faults(version: Object, field: str) -> Iterator[FieldError]:
    deprecated, warning = version.get("deprecated"), version.get("deprecationWarning")
    if warning is None:
        return
    at = f"{field}.deprecationWarning"
    if not deprecated:
        yield _invalid(at, "can only be set for deprecated versions", warning)
    elif not warning.isprintable() or not 0 < len(warning) <= MAX_WARNING:
        yield _invalid(at, f"must be 1 to {MAX_WARNING} printable characters", warning)


def _selectable_faults(version: Object, field: str) -> Iterator[FieldError]:
    """A selectable field is a plain path to a string, boolean or integer; at most eight are allowed."""
    declared = version.get("selectableFields") or []
    if len(declared) > MAX_SELECTABLE:
        detail = f"must have at most {MAX_SELECTABLE} items"
        yield FieldError("FieldValueTooMany", field, detail, len(declared))
    for number, entry in enumerate(declared[:MAX_SELECTABLE]):
        path = entry.get("jsonPath")
        at = f"{field}[{number}].jsonPath"
        if not path:
            yield FieldError("FieldValueRequired", at, "")
        elif not _PLAIN_PATH.fullmatch(path):
            yield _invalid(at, "is an invalid path: must be a simple json path in the form .foo.bar", path)
        elif path.startswith(".metadata"):
            yield _invalid(at, "must not point to fields in metadata", path)
        elif _type_at(version, path) not in ("string", "boolean", "integer"):
            yield _invalid(at, "must point to a field of type string, boolean or integer", path)


def _type_at(version: Object, path: str) -> object:
    schema: Any = (version.get("schema") or {}).get("openAPIV3Schema")
    for name in path.split(".")[1:]:
        schema = (schema.get("properties") or {}).get(name) if isinstance(schema, dict) else None
    return schema.get("type") if isinstance(schema, dict) else None


def _scale_faults(version: Object, field: str) -> Iterator[FieldError]:
    scale: Object = (version.get("subresources") or {}).get("scale") or {}
    for name, roots, optional in _SCALE_PATHS if scale else ():
        path = scale.get(name) or ""
        if not path and not optional:
            yield FieldError("FieldValueRequired", f"{field}.{name}", "")
        elif path and not path.startswith("."):
            yield _invalid(f"{field}.{name}", "must be a simple json path starting with .", path)
        elif path and not path.startswith(tuple(f"{root}." for root in roots)):
            under = roots[0] if len(roots) == 1 else f"either {' or '.join(roots)}"
            yield _invalid(f"{field}.{name}", f"should be a json path under {under}", path)


def _change_faults(old: Object, new: Object) -> Iterator[FieldError]:
    for field, before, after in (
        ("spec.scope", old["scope"], new["scope"]),
        ("spec.names.kind", old["names"]["kind"], new["names"]["kind"]),
    ):
        if before != after:
            yield _invalid(field, "field is immutable", after)


# Unknown fields in the schemas of definitions, where a misspelled keyword has no effect.
#
# The schema of a CustomResourceDefinition cannot describe the fields of schemas, because schemas are
# recursive.
_SCHEMA = frozenset({"not", "items", "additionalItems", "additionalProperties"})
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "items"})
_BY_NAME = frozenset({"properties", "patternProperties", "definitions", "dependencies"})
_PLAIN = frozenset(
    {"$ref", "$schema", "id", "title", "description", "example", "type", "format", "nullable", "default"}
    | {"enum", "required", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf"}
    | {"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "uniqueItems"}
    | {"minProperties", "maxProperties", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"}
    | {"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"}
    | {"x-kubernetes-preserve-unknown-fields"}
)
_PARTS = {
    "externalDocs": frozenset({"description", "url"}),
    "x-kubernetes-validations": frozenset(
        {"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}
    ),
}
_KNOWN = _SCHEMA | _SCHEMAS | _BY_NAME | _PLAIN | _PARTS.keys()


def prune_schemas(definition: Object) -> list[str]:
    """Remove unknown fields from the schemas of a definition; returns the paths of the removed fields."""
    removed: list[str] = []
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        validation = version.get("schema") if isinstance(version, dict) else None
        schema = validation.get("openAPIV3Schema") if isinstance(validation, dict) else None
        _prune(schema, f"spec.versions[{index}].schema.openAPIV3Schema", removed)
    return removed


def _prune(schema: Any, path: str, removed: list[str]) -> None:
    """Values that are not objects are not checked here."""
    if not isinstance(schema, dict):
        return
    _keep(schema, _KNOWN, path, removed)
    for inner, at in _inside(schema, path):
        _prune(inner, at, removed)
    for keyword, known in _PARTS.items():
        part = schema.get(keyword)
        if isinstance(part, dict):
            _keep(part, known, f"{path}.{keyword}", removed)
        for index, each in enumerate(part if isinstance(part, list) else ()):
            if isinstance(each, dict):
                _keep(each, known, f"{path}.{keyword}[{index}]", removed)


def _keep(value: Object, known: frozenset[str], path: str, removed: list[str]) -> None:
    for name in [name for name in value if name not in known]:
        del value[name]
        removed.append(f"{path}.{name}")


def _inside(schema: Object, path: str) -> Iterator[tuple[Any, str]]:
    for keyword, value in schema.items():
        if isinstance(value, dict) and keyword in _BY_NAME:
            yield from ((inner, f"{path}.{keyword}.{name}") for name, inner in value.items())
        elif isinstance(value, dict) and keyword in _SCHEMA:
            yield value, f"{path}.{keyword}"
        elif isinstance(value, list) and keyword in _SCHEMAS:
            yield from ((inner, f"{path}.{keyword}[{index}]") for index, inner in enumerate(value))
