"""The registry of served kinds: their names and versions, from definitions.

Every kind, including built-in ones, is registered by an object in the form of a CustomResourceDefinition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from headgate import api
from headgate.api import kubernetes
from headgate.apiserver import fieldtree, metadata
from headgate.apiserver.jsonpath import JSONPath
from headgate.kubeschema import structural

Schema = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The same verbs, in the order in which Kubernetes lists them for custom kinds."""
_COUNTED = frozenset(
    {"pods", "deployments.apps", "replicasets.apps", "statefulsets.apps"}
    | {"endpointslices.discovery.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"}
)
_OWN_SUBRESOURCES = {
    "pods": ("binding", "eviction", "log"),
    "namespaces": ("finalize",),
    "serviceaccounts": ("token",),
}
"""Of kinds of Kubernetes, with their own handlers."""
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    type: str
    path: JSONPath
    priority: int
    description: str
    format: str


@dataclass(frozen=True)
class Scale:
    """Field paths of the scale subresource."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Served:
    """One served version of a kind."""

    group: str
    version: str
    kind: str
    list_kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    namespaced: bool
    custom: bool
    """Defined by a stored object, so that strategic merge patch is not supported."""
    schema: Schema
    has_status: bool
    scale: Scale | None
    columns: tuple[Column, ...]
    storage_api_version: str
    selectable_fields: tuple[tuple[str, ...], ...] = ()
    """Paths of fields that field selectors may use, besides those of all kinds."""
    deprecation: str = ""
    """Warning for every request of this version."""
    verbs: tuple[str, ...] = VERBS
    """Supported verbs; reviews can only be created."""
    definition_bytes: int = 0
    """Size of the stored definition, which indicates the cost of its schema."""

    @cached_property
    def merge_schema(self) -> Schema:
        """The schema for patches and field ownership: with the server's schema of metadata."""
        schema = self.schema
        if kubernetes.knows(self.api_version, self.kind) and not self.custom:
            schema = kubernetes.completed(self.api_version, self.kind, schema, for_merging=True)
        return {**schema, "properties": {**schema.get("properties", {}), "metadata": metadata.SCHEMA}}

    @cached_property
    def claims(self) -> fieldtree.Tree:
        """Returns the fieldsV1 of a complete object."""
        return fieldtree.compiled(self.merge_schema)

    @cached_property
    def prepared(self) -> structural.Prepared:
        """The schema, prepared for validation."""
        return structural.Prepared(self.schema)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name under which all versions are stored: "plural.group"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def subresources(self) -> tuple[str, ...]:
        return (*(("status",) if self.has_status else ()), *(("scale",) if self.scale else ()))

    @property
    def all_subresources(self) -> tuple[str, ...]:
        """Including subresources with their own handler."""
        own = () if self.custom else _OWN_SUBRESOURCES.get(self.resource, ())
        return (*self.subresources, *own)

    @property
    def counts_generations(self) -> bool:
        """Whether objects have a metadata.generation; few of Kubernetes' own kinds do."""
        return self.custom or self.resource in _COUNTED


class Registry:
    """The served resources."""

    def __init__(self, builtins: Iterable[dict[str, Any]], reviews: Iterable[dict[str, Any]] = ()) -> None:
        self._served: dict[tuple[str, str, str], Served] = {}
        self._groups: dict[str, list[str]] | None = None
        self._kinds: dict[tuple[str, str], list[Served]] | None = None
        self.generation = 0
        """Changes whenever the served kinds change."""
        for definition in builtins:
            self._serve(served_versions(definition, custom=False))
        for definition in reviews:
            self._serve(replace(s, verbs=("create",)) for s in served_versions(definition, custom=False))

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._served.get((group, version, plural))

    def by_resource(self, resource: str) -> Served | None:
        """The storage version of a stored resource, or any served one."""
        candidates = [served for served in self if served.resource == resource]
        stored = [s for s in candidates if s.api_version == s.storage_api_version]
        return next(iter(stored or candidates), None)

    def groups(self) -> Mapping[str, list[str]]:
        """Versions by group, preferred version first."""
        if self._groups is None:  # searching thousands of kinds for each of their groups takes seconds
            found: dict[str, set[str]] = {}
            for served in self:
                found.setdefault(served.group, set()).add(served.version)
            self._groups = {group: sorted(versions, key=_version_order) for group, versions in found.items()}
        return self._groups

    def kinds(self, group: str, version: str) -> Sequence[Served]:
        """The kinds in a group version."""
        if self._kinds is None:
            self._kinds = {}
            for served in self:
                self._kinds.setdefault((served.group, served.version), []).append(served)
        return self._kinds.get((group, version), ())

    def name_conflict(self, definition: dict[str, Any]) -> str | None:
        """Why the names of a definition cannot be accepted: another kind of its group has them."""
        spec = definition["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        for served in self:
            if served.group != group or (served.plural == plural and served.custom):
                continue
            if served.plural == plural or served.kind == spec["names"]["kind"]:
                return f'"{plural}" or "{served.kind}" is already in use'
        return None

    def register(self, definition: dict[str, Any], size: int = 0) -> None:
        """Serve a stored definition of `size` bytes, replacing its previous state."""
        self.forget(definition)
        versions = served_versions(definition, custom=True)
        self._serve(replace(served, definition_bytes=size) for served in versions)

    def forget(self, definition: dict[str, Any]) -> None:
        resource = definition["metadata"]["name"]
        self._set({k: s for k, s in self._served.items() if s.resource != resource or not s.custom})

    def _serve(self, versions: Iterable[Served]) -> None:
        # Always a new dict: requests may still iterate over the old one.
        self._set(self._served | {(s.group, s.version, s.plural): s for s in versions})

    def _set(self, served: dict[tuple[str, str, str], Served]) -> None:
        self._served, self._groups, self._kinds = served, None, None
        self.generation += 1


def served_versions(definition: dict[str, Any], *, custom: bool) -> list[Served]:
    """The served versions that a definition declares."""
    spec = msgspec.convert(definition, api.CustomResourceDefinition).spec
    names = spec.names
    storage = next(version.name for version in spec.versions if version.storage)
    raw = {version["name"]: version for version in definition["spec"]["versions"]}
    served = []
    for version in spec.versions:
        if not version.served:
            continue
        subresources = raw[version.name].get("subresources", {})
        served.append(
            Served(
                group=spec.group,
                version=version.name,
                kind=names.kind,
                list_kind=names.list_kind or f"{names.kind}List",
                plural=names.plural,
                singular=names.singular or names.kind.lower(),
                short_names=tuple(names.short_names),
                categories=tuple(names.categories),
                namespaced=spec.scope == "Namespaced",
                custom=custom,
                schema=raw[version.name]["schema"]["openAPIV3Schema"],
                has_status="status" in subresources,
                scale=_scale(subresources.get("scale")),
                columns=_columns(version.additional_printer_columns),
                storage_api_version=f"{spec.group}/{storage}" if spec.group else storage,
                verbs=CUSTOM_VERBS if custom else _verbs(names.plural),
                selectable_fields=_selectable(raw[version.name].get("selectableFields")),
                deprecation=_deprecation(raw[version.name], f"{spec.group}/{version.name} {names.kind}"),
            )
        )
    return served


def _verbs(plural: str) -> tuple[str, ...]:
    """The verbs of a built-in kind: namespaces are not deleted all at once."""
    return tuple(verb for verb in VERBS if verb != "deletecollection" or plural != "namespaces")


def _deprecation(version: dict[str, Any], kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{kind} is deprecated"


def _selectable(fields: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(_names(field.get("jsonPath", "")) for field in fields or [])


def _columns(columns: Iterable[Any]) -> tuple[Column, ...]:
    return tuple(
        Column(c.name, c.type, JSONPath.parse(c.json_path), c.priority, c.description, c.format)
        for c in columns
    )


def _scale(scale: dict[str, Any] | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(
        _names(scale["specReplicasPath"]),
        _names(scale["statusReplicasPath"]),
        _names(scale.get("labelSelectorPath", "")),
    )


def _names(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split(".") if part)


def _version_order(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' version priority: stable, beta, alpha; newer before older; others last, by name."""
    if not (match := _VERSION.fullmatch(version)):
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)
