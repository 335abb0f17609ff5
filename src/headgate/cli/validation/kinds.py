"""Which kinds can be judged here, and what to say of the others."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headgate import api
from headgate.api import structural


@dataclass(frozen=True)
class Kind:
    """One version of a kind, with its schema."""

    resource: api.Resource
    schema: structural.Schema
    is_builtin: bool
    """Of Kubernetes itself: the schema knows the part of it that Headgate uses."""


class Kinds:
    """Headgate's kinds, Kubernetes' own as far as Headgate uses them, and those that were added."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._advice: dict[tuple[str, str], str] = {}
        for definition in api.builtin_definitions():
            self._register(definition, is_builtin=True)
        for definition in api.custom_definitions():
            self._register(definition, is_builtin=False)
        self._groups = {kind.resource.group for kind in self._kinds.values() if not kind.is_builtin}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._kinds

    def find(self, api_version: str, kind: str) -> Kind | None:
        return self._kinds.get((api_version, kind))

    def add(self, definition: dict[str, Any]) -> None:
        """Takes a sound CustomResourceDefinition; one that replaces a kind of ours is the one that counts."""
        self._register(definition, is_builtin=False)
        self._advice.clear()

    def is_headgates_group(self, api_version: str) -> bool:
        return api_version.partition("/")[0] in self._groups

    def advice(self, api_version: str, kind: str) -> str:
        """The kind that was most likely meant by an unknown one; "" if none is near."""
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

    def _register(self, definition: dict[str, Any], *, is_builtin: bool) -> None:
        spec = definition["spec"]
        for version in spec["versions"]:
            resource = api.Resource(
                spec["group"],
                version["name"],
                spec["names"]["kind"],
                spec["names"]["plural"],
                spec["scope"] == "Namespaced",
            )
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
            self._kinds[(resource.api_version, resource.kind)] = Kind(resource, schema, is_builtin)


_ANYTHING: structural.Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


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
"""Versions that Kubernetes no longer serves (its deprecated API migration guide), and their successors."""
