"""From manifests to findings: validate each object by its schema, then all of them together."""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headgate.api import admission
from headgate.apiserver import metadata
from headgate.cli.manifests import Manifest, Mapping, Place, Scalar, Span, place_of
from headgate.cli.validation import suggestions
from headgate.cli.validation.findings import Finding, Severity, about, unknown_field
from headgate.cli.validation.kinds import Kind, Kinds
from headgate.cli.validation.spelling import closest
from headgate.kubeschema import structural
from headgate.kubeschema.structural import MAX_ERRORS, NO_FIELD, NOTES, FieldError, Schema

_DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_METADATA: Schema = {"metadata": metadata.SCHEMA}
_MAX_ENTRIES = 1000
_MISSING_OBJECT = re.compile(r"there is no (\w+) ([^/ ]+)/([^ ,;]+)")
_NOT_OF_TYPE = re.compile(r'must be of type (\S+): "(\w+)"')

Names = dict[tuple[str, str], list[str]]
"""The names of the objects, by kind and namespace."""


def judge(manifests: list[Manifest], kinds: Kinds, namespace: str = "default") -> list[Finding]:
    """All findings about the objects; `namespace` is used for objects that name none.

    Definitions among the objects are checked first, and then used to check others. References are resolved
    among the manifests.
    """
    findings: list[Finding] = []
    for manifest in manifests:
        if _key(manifest) == _DEFINITION:
            faults = list(_of_definition(manifest))
            if not faults and not _judged([manifest], kinds, namespace):
                kinds.add(manifest.content)
            findings += faults
    return findings + _judged(manifests, kinds, namespace) + list(_duplicates(manifests, kinds, namespace))


def _judged(manifests: list[Manifest], kinds: Kinds, namespace: str) -> list[Finding]:
    """Findings about each object in the context of the others."""
    cases: list[_Case] = []
    findings: list[Finding] = []
    for manifest in manifests:
        kind = kinds.find(*_key(manifest))
        if kind is None:
            findings.append(_unknown_kind(manifest, kinds, scope(manifest, kind, namespace)))
        else:
            cases.append(_prepared(manifest, kind, namespace))
    others = admission.Gathered(case.obj for case in cases if case.has_identity)
    names: Names = {}
    for case in cases:
        if case.has_identity:
            names.setdefault((case.manifest.kind, case.namespace), []).append(case.obj["metadata"]["name"])
    groups: set[tuple[str, str, str]] = set()
    for case in cases:
        for finding in _of_object(case, others, names):
            if finding.severity == "warning" and finding.message.endswith(admission.SAME_PODS):
                # Report it once, for the first pool with this selector: the warning names the others.
                group = (case.manifest.kind, case.namespace, _selector(case, finding.path))
                if group in groups:
                    continue
                groups.add(group)
            findings.append(finding)
    return findings


def completed(manifest: Manifest, kinds: Kinds, namespace: str = "default") -> dict[str, Any]:
    """A valid object of a known kind as a server would store it: with its defaults and its namespace."""
    kind = kinds.find(*_key(manifest))
    assert kind is not None
    return _prepared(manifest, kind, namespace).obj


def _selector(case: _Case, path: str) -> str:
    """The labels at a path, as a comparable string."""
    labels: Any = case.obj
    for step in path.split("."):
        labels = labels[step]
    return str(sorted(labels.items()))


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest.content["apiVersion"], manifest.kind


def scope(manifest: Manifest, kind: Kind | None, namespace: str) -> str:
    """The namespace of an object; "" for a cluster-scoped one."""
    if kind is not None and not kind.resource.namespaced:
        return ""
    meta = manifest.content.get("metadata")
    own = meta.get("namespace") if isinstance(meta, dict) else None
    return own if isinstance(own, str) and own else namespace


# -- one object


@dataclass(frozen=True)
class _Case:
    """An object as a server would see it: pruned, with defaults and namespace."""

    manifest: Manifest
    kind: Kind
    schema: Schema
    """Including that of metadata."""
    namespace: str
    obj: dict[str, Any]
    unknown: list[str]
    """Paths of fields that the schema does not have."""
    refused: list[FieldError]
    """Errors in fields that defaulting would hide."""
    written: list[str]
    """Warnings about the same."""

    @property
    def has_identity(self) -> bool:
        meta = self.obj["metadata"]
        return isinstance(meta, dict) and isinstance(meta.get("name"), str)


def _prepared(manifest: Manifest, kind: Kind, namespace: str) -> _Case:
    schema: Schema = {**kind.schema, "properties": {**kind.schema.get("properties", {}), **_METADATA}}
    obj = copy.deepcopy(manifest.content)
    meta = obj["metadata"] = {} if obj.get("metadata") is None else obj["metadata"]
    unknown = structural.prune(schema, obj)
    if isinstance(meta, dict):
        unknown += [f"metadata.{path}" for path in structural.prune(metadata.SCHEMA, meta)]
    group = kind.resource.group
    refused = admission.errors_of_written(group, manifest.kind, obj)
    written = admission.warnings_of_written(obj)
    with contextlib.suppress(structural.DefaultsTooLarge):  # the server rejects it; check the rest here
        structural.default(schema, obj)
    admission.default(obj)
    where = scope(manifest, kind, namespace)
    if isinstance(meta, dict) and where and isinstance(meta.get("namespace", ""), str):
        meta["namespace"] = where
    return _Case(manifest, kind, schema, where, obj, unknown, refused, written)


def _of_definition(manifest: Manifest) -> Iterator[Finding]:
    """Errors in the schemas of a CustomResourceDefinition."""
    spec = manifest.content.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for index, version in enumerate(versions if isinstance(versions, list) else []):
        schema = version.get("schema") if isinstance(version, dict) else None
        structure = schema.get("openAPIV3Schema") if isinstance(schema, dict) else None
        if isinstance(structure, dict):
            field = f"spec.versions[{index}].schema.openAPIV3Schema"
            for error in structural.check(structure, field):
                yield about(manifest, error.field, error.body(), namespace="")


def _of_object(case: _Case, others: admission.View, names: Names) -> Iterator[Finding]:
    by_schema = structural.validate(case.schema, case.obj)
    mistyped = [error.field for error in by_schema if error.reason == "FieldValueTypeInvalid"]
    # Fields inside a value of the wrong type are not worth reporting.
    unknown = [path for path in case.unknown if not any(path.startswith(field) for field in mistyped)]
    yield from (_unknown_field(case, path) for path in unknown[:MAX_ERRORS])
    if len(unknown) > MAX_ERRORS:
        message = f"{len(unknown)} unknown fields: only the first {MAX_ERRORS} are listed"
        yield about(case.manifest, "", message, namespace=case.namespace, severity="note")
    misspelt = {_meant(case, path) for path in unknown[:MAX_ERRORS]}
    by_rules = admission.check(case.obj, None, others)
    refused = [*case.refused, *by_rules.errors]
    for error in _unique(admission.merged(by_schema, refused, prefer_rules=case.kind.is_builtin)):
        if error.reason != "FieldValueRequired" or error.field not in misspelt:
            yield _refusal(case, error)
    for warning in (*case.written, *by_rules.warnings):
        yield _warned(case, warning, names)


def _meant(case: _Case, path: str) -> str:
    """The path of the field that a misspelled one stands for; "" if none is similar."""
    place = place_of(case.manifest.tree, path)
    name = suggestions.near(case.schema, place)
    return f"{path.removesuffix(str(place.steps[-1]))}{name}" if name else ""


def _unique(errors: Iterable[FieldError]) -> list[FieldError]:
    return list({error.message(): error for error in errors}.values())


def _unknown_kind(manifest: Manifest, kinds: Kinds, namespace: str) -> Finding:
    api_version, kind = _key(manifest)
    advice = kinds.advice(api_version, kind)
    severity: Severity = "note"
    if kinds.is_headgates_group(api_version) or kinds.differs_in_case(api_version, kind):
        severity = "error"
        known = kinds.kinds_of(api_version)
        advice = advice or (f"its kinds are {', '.join(known)}" if known else "")
        message = f"there is no kind {kind} in {api_version}"
    elif advice:
        severity, message = "warning", f"unknown kind {kind} of {api_version}, not checked"
    else:
        message = f"skipped: kind {kind} of {api_version} is not known here"
        advice = "pass its CustomResourceDefinition with --crd FILE"
    path = "kind" if kinds.kinds_of(api_version) else "apiVersion"
    return about(manifest, path, message, namespace=namespace, severity=severity, suggestion=advice)


def _unknown_field(case: _Case, path: str) -> Finding:
    suggestion = suggestions.for_unknown(case.schema, place_of(case.manifest.tree, path))
    return unknown_field(case.manifest, path, namespace=case.namespace, suggestion=suggestion)


def _refusal(case: _Case, error: FieldError) -> Finding:
    if error.field == NO_FIELD:
        severity: Severity = "note" if error in NOTES else "error"
        return about(case.manifest, "", error.detail, namespace=case.namespace, severity=severity)
    place = place_of(case.manifest.tree, error.field)
    return about(
        case.manifest,
        error.field,
        told(error),
        namespace=case.namespace,
        suggestion=suggestions.for_error(case.schema, error, place),
        span=_entry(place, error.value),
    )


def _warned(case: _Case, warning: str, names: Names) -> Finding:
    """A warning of the rules; it begins with the path that it is about."""
    path, _, message = warning.partition(": ")
    missing = _MISSING_OBJECT.match(message)
    near = closest(missing[3], names.get((missing[1], missing[2]), [])) if missing else None
    advice = f"did you mean {near}?" if near else ""
    return about(
        case.manifest, path, message, namespace=case.namespace, severity="warning", suggestion=advice
    )


def told(error: FieldError) -> str:
    """The message of an error, without the path that is printed in front of it anyway."""
    types = _NOT_OF_TYPE.search(error.detail)
    if error.reason == "FieldValueTypeInvalid" and types and error.value == types[2]:
        return f"must be of type {types[1]}, not {types[2]}"
    return error.body().replace(f"{error.field} in body ", "", 1)


def _entry(place: Place, value: object) -> Span | None:
    """The key or value that an error about the whole mapping names."""
    if place.missing or not isinstance(place.node, Mapping) or not isinstance(value, str):
        return None
    for name, entry in itertools.islice(place.node.entries.items(), _MAX_ENTRIES):
        if name == value:
            return entry.key
        if isinstance(entry.value, Scalar) and entry.value.value == value:
            return entry.value.span
    return None


# -- all of them


@dataclass(frozen=True)
class _Identity:
    group: str
    kind: str
    namespace: str
    name: str


def _duplicates(manifests: list[Manifest], kinds: Kinds, namespace: str) -> Iterator[Finding]:
    """Objects that are defined twice: applied in order, the last would silently win."""
    first: dict[_Identity, Manifest] = {}
    for manifest in manifests:
        api_version, kind = _key(manifest)
        where = scope(manifest, kinds.find(api_version, kind), namespace)
        meta = manifest.content.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        if not isinstance(name, str) or not name:
            continue
        identity = _Identity(api_version.rpartition("/")[0], kind, where, name)
        if identity in first:
            message = f"defined twice: {first[identity].source} defines the same object"
            yield about(
                manifest,
                "metadata.name",
                message,
                namespace=where,
                suggestion="remove or rename one of the two",
            )
        else:
            first[identity] = manifest
