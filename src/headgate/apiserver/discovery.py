"""API discovery from the registry: aggregated (v2, v2beta1) and legacy."""

from __future__ import annotations

from typing import Any

from headgate.apiserver.registry import Registry, Served

Object = dict[str, Any]

SUBRESOURCE_VERBS = ["get", "patch", "update"]
SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_KINDS = {
    "scale": SCALE,
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "binding": {"kind": "Binding"},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
}
"""The kinds that are sent to subresources, if not the object's own kind."""
_SPECIAL_VERBS = {
    "log": ["get"],
    "finalize": ["update"],
    "binding": ["create"],
    "eviction": ["create"],
    "token": ["create"],
}
_TYPE = frozenset({"kind", "apiVersion"})
AGGREGATED = ("v2", "v2beta1")


def aggregated(registry: Registry, version: str, *, core: bool) -> Object:
    """An APIGroupDiscoveryList of the core group, or of all others, in apidiscovery.k8s.io `version`."""
    groups = [(g, versions) for g, versions in sorted(registry.groups().items()) if (g == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": name,
                        "freshness": "Current",
                        "resources": [_aggregated_resource(s) for s in _of(registry, group, name)],
                    }
                    for name in versions
                ],
            }
            for group, versions in groups
        ],
    }


def _of(registry: Registry, group: str, version: str) -> list[Served]:
    return sorted(registry.kinds(group, version), key=lambda served: served.plural)


def _aggregated_resource(served: Served) -> Object:
    group, version = (served.group, served.version) if served.custom else ("", "")  # as Kubernetes has it
    own = {"group": group, "version": version, "kind": served.kind}
    resource: Object = {
        "resource": served.plural,
        "responseKind": own,
        "scope": "Namespaced" if served.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        resource["shortNames"] = list(served.short_names)
    if served.categories:
        resource["categories"] = list(served.categories)
    if subresources := subresources_of(served):
        resource["subresources"] = [
            {"subresource": name, "responseKind": own | _KINDS.get(name, {}), "verbs": verbs}
            for name, verbs in subresources
        ]
    return resource


def subresources_of(served: Served) -> list[tuple[str, list[str]]]:
    """Names and verbs of the subresources of a kind."""
    return [(name, _SPECIAL_VERBS.get(name, SUBRESOURCE_VERBS)) for name in served.all_subresources]


# -- legacy


def api_versions() -> Object:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(registry: Registry) -> Object:
    found = [group(registry, name) or {} for name in sorted(registry.groups()) if name]
    groups = [{key: value for key, value in each.items() if key not in _TYPE} for each in found]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Object | None:
    """An APIGroup, or None for an undefined group."""
    if not name or (versions := registry.groups().get(name)) is None:
        return None
    named = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": named,
        "preferredVersion": named[0],
    }


def resource_list(registry: Registry, group: str, version: str) -> Object | None:
    """An APIResourceList, or None for an undefined version."""
    if not (found := _of(registry, group, version)):
        return None
    resources = []
    for served in found:
        resources.append(_legacy_resource(served))
        for name, verbs in subresources_of(served):
            shown = _KINDS.get(name, {"kind": served.kind})
            entry = {"name": f"{served.plural}/{name}", "singularName": "", "namespaced": served.namespaced}
            resources.append({**entry, **shown, "verbs": verbs})
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def _legacy_resource(served: Served) -> Object:
    entry: Object = {
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        entry["shortNames"] = list(served.short_names)
    if served.categories:
        entry["categories"] = list(served.categories)
    return entry
