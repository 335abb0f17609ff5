"""The kinds that can be validated here, and advice for the others."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headgate import api
from headgate.kubeschema import structural


@dataclass(frozen=True)
class Kind:
    """One version of a kind, with its schema."""

    resource: api.Resource
    schema: structural.Schema
    is_builtin: bool
    """A Kubernetes kind: the schema covers only the part that Headgate uses."""


class Kinds:
    """Headgate's kinds, Kubernetes' kinds as far as Headgate uses them, and added ones."""

    def __init__(self) -> None:
        self._kinds = dict(_known())
        self._advice: dict[tuple[str, str], str] = {}
        self._groups = {kind.resource.group for kind in self._kinds.values() if not kind.is_builtin}

    def find(self, api_version: str, kind: str) -> Kind | None:
        return self._kinds.get((api_version, kind))

    def add(self, definition: dict[str, Any]) -> None:
        """Add a valid CustomResourceDefinition; it replaces a built-in kind of the same name."""
        self._kinds |= _versions(definition, is_builtin=False)
        self._advice.clear()

    def is_headgates_group(self, api_version: str) -> bool:
        return api_version.partition("/")[0] in self._groups

    def differs_in_case(self, api_version: str, kind: str) -> bool:
        """Whether the name matches a known kind except for case."""
        return kind.lower() in {known.lower() for known in self.kinds_of(api_version)}

    def advice(self, api_version: str, kind: str) -> str:
        """The kind that an unknown one most likely stands for; "" if none is similar."""
        key = (api_version, kind)
        if key not in self._advice:
            self._advice[key] = self._advise(api_version, kind)
        return self._advice[key]

    def kinds_of(self, api_version: str) -> list[str]:
        return sorted(kind for version, kind in self._kinds if version == api_version)

    def _advise(self, api_version: str, kind: str) -> str:
        if version := _REPLACED.get((api_version, kind)):
            return f"this version is no longer served by Kubernetes: use apiVersion: {version}"
        versions = sorted({version for version, name in self._kinds if name == kind})
        if versions:
            return f"did you mean apiVersion: {' or '.join(versions)}?"
        folded = {name.lower(): name for _, name in self._kinds}
        close = difflib.get_close_matches(kind.lower(), folded, 1, 0.75)
        if not close:
            return ""
        name = folded[close[0]]
        of = sorted({version for version, other in self._kinds if other == name})
        shown = name if api_version in of else f"{name} of {' or '.join(of)}"
        return f"did you mean {shown}?"


_ANYTHING: structural.Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@functools.cache
def _known() -> dict[tuple[str, str], Kind]:
    """The kinds known from the types; cached, because generating their schemas takes a while."""
    found: dict[tuple[str, str], Kind] = {}
    for definition in api.builtin_definitions():
        found |= _versions(definition, is_builtin=True)
    for definition in (*api.custom_definitions(), *api.borrowed_definitions()):
        found |= _versions(definition, is_builtin=False)
    return found


def _versions(definition: dict[str, Any], *, is_builtin: bool) -> dict[tuple[str, str], Kind]:
    """All versions of a definition, by apiVersion and kind."""
    spec, found = definition["spec"], {}
    for version in spec["versions"]:
        names = spec["names"]
        is_namespaced = spec["scope"] == "Namespaced"
        resource = api.Resource(spec["group"], version["name"], names["kind"], names["plural"], is_namespaced)
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
        found[(resource.api_version, resource.kind)] = Kind(resource, schema, is_builtin)
    return found


def _replaced(kinds: Iterable[str], old: Iterable[str], new: str) -> dict[tuple[str, str], str]:
    return {(version, kind): new for kind in kinds for version in old}


_REPLACED = {
    **_replaced(("Deployment", "ReplicaSet", "DaemonSet"), ("extensions/v1beta1", "apps/v1beta2"), "apps/v1"),
    **_replaced(("Deployment", "StatefulSet"), ("apps/v1beta1", "apps/v1beta2"), "apps/v1"),
    **_replaced(("Ingress",), ("extensions/v1beta1", "networking.k8s.io/v1beta1"), "networking.k8s.io/v1"),
    **_replaced(("NetworkPolicy",), ("extensions/v1beta1",), "networking.k8s.io/v1"),
    **_replaced(
        ("HorizontalPodAutoscaler",), ("autoscaling/v2beta1", "autoscaling/v2beta2"), "autoscaling/v2"
    ),
    **_replaced(("PodDisruptionBudget",), ("policy/v1beta1",), "policy/v1"),
    **_replaced(("CronJob",), ("batch/v1beta1",), "batch/v1"),
    **_replaced(("CustomResourceDefinition",), ("apiextensions.k8s.io/v1beta1",), "apiextensions.k8s.io/v1"),
    **_replaced(
        ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1"),
        "rbac.authorization.k8s.io/v1",
    ),
    **_replaced(("Lease",), ("coordination.k8s.io/v1beta1",), "coordination.k8s.io/v1"),
}
"""Versions that Kubernetes no longer serves (deprecated API migration guide), and their replacements."""
