"""Every kind that Headgate serves, as a CustomResourceDefinition: schema, names, columns, subresources.

`custom_definitions` are installed into a cluster (and stored by the embedded API server);
`builtin_definitions` describe the kinds that every cluster has, in the same form.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from headgate.api import (
    apps,
    core,
    discovery_kinds,
    extensions,
    gateways,
    gie_v1,
    gie_v1alpha1,
    gie_v1alpha2,
    horizontal,
    http_routes,
    kthena_networking,
    kthena_registry,
    kubernetes,
    leaderworkersets,
    llmd,
    reference_grants,
    tenants,
)
from headgate.api.meta import Resource
from headgate.kubeschema import schema

Column = tuple[str, str, str, int]
"""Heading, type, JSONPath, priority."""

_AGE: Column = ("Age", "date", ".metadata.creationTimestamp", 0)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a definition that do not come from the type."""

    kind: type[msgspec.Struct]
    also: tuple[type[msgspec.Struct], ...] = ()
    """The same kind in other versions, which are served but not stored."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (_AGE,)
    status: bool = False
    annotations: dict[str, str] = {}
    deprecation: str = ""
    """Warning for every request."""
    scale: tuple[str, str, str] | None = None
    """JSONPaths of the wanted number, the observed number, and the selector."""
    pod_templates: tuple[tuple[str, ...], ...] = ()
    """Fields with a Pod template, for custom kinds; those of Kubernetes have one anyway."""


_APPROVED = {
    "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/1173"
}
"""API servers require an approval annotation for groups of *.k8s.io."""

_CUSTOM = (
    Definition(
        kind=kthena_networking.ModelRoute,
        short_names=("mr",),
        categories=("headgate", "volcano"),
        columns=(
            ("Model", "string", ".spec.modelName", 0),
            ("Adapters", "string", ".spec.loraAdapters", 1),
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
            ("Status", "string", '.status.conditions[?(@.type=="Ready")].message', 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=kthena_networking.ModelServer,
        short_names=("ms",),
        categories=("headgate", "volcano"),
        columns=(
            ("Engine", "string", ".spec.inferenceEngine", 0),
            ("Model", "string", ".spec.model", 0),
            ("Port", "integer", ".spec.workloadPort.port", 1),
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
            ("Status", "string", '.status.conditions[?(@.type=="Ready")].message', 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=kthena_registry.Model,
        short_names=("mdl",),
        categories=("headgate", "volcano"),
        columns=(
            ("Model", "string", ".spec.name", 0),
            ("Active", "string", '.status.conditions[?(@.type=="Active")].status', 0),
            ("Reason", "string", '.status.conditions[?(@.type=="Active")].reason', 0),
            ("Message", "string", '.status.conditions[?(@.type=="Active")].message', 0),
            ("Owner", "string", ".spec.owner", 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=kthena_registry.AutoscalingPolicy,
        short_names=("asp",),
        categories=("headgate", "volcano"),
        columns=(
            ("Metric", "string", ".spec.metrics[0].metricName", 0),
            ("Target", "string", ".spec.metrics[0].targetValue", 0),
            ("Tolerance", "integer", ".spec.tolerancePercent", 1),
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=kthena_registry.AutoscalingPolicyBinding,
        short_names=("aspb",),
        categories=("headgate", "volcano"),
        columns=(
            ("Policy", "string", ".spec.policyRef.name", 0),
            ("Target", "string", ".spec.scalingConfiguration.target.targetRef.name", 0),
            ("Min", "integer", ".spec.scalingConfiguration.minReplicas", 0),
            ("Max", "integer", ".spec.scalingConfiguration.maxReplicas", 0),
            ("Current", "integer", ".status.currentReplicas", 0),
            ("Desired", "integer", ".status.desiredReplicas", 0),
            ("Metric", "string", ".status.metricName", 1),
            ("Value", "string", ".status.value", 1),
            ("Rule", "string", ".status.rule", 1),
            ("Mode", "string", ".status.mode", 1),
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
            ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=gie_v1alpha1.InferencePool,
        categories=("headgate", "gie"),
        columns=(
            ("Port", "integer", ".spec.targetPortNumber", 0),
            ("Selector", "string", ".spec.selector", 1),
            ("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status', 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=gie_v1alpha1.InferenceModel,
        short_names=("infmodel",),
        categories=("headgate", "gie"),
        columns=(
            ("Model Name", "string", ".spec.modelName", 0),
            ("Inference Pool", "string", ".spec.poolRef.name", 0),
            ("Criticality", "string", ".spec.criticality", 0),
            ("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status', 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=gie_v1alpha2.InferenceObjective,
        short_names=("infobj",),
        categories=("headgate", "gie"),
        columns=(
            ("Inference Pool", "string", ".spec.poolRef.name", 0),
            ("Priority", "integer", ".spec.priority", 0),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=gie_v1alpha2.InferenceModelRewrite,
        categories=("headgate", "gie"),
        columns=(
            ("Inference Pool", "string", ".spec.poolRef.name", 0),
            ("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status', 1),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=gie_v1.InferencePool,
        short_names=("infpool",),
        categories=("headgate", "gie"),
        columns=(
            ("Port", "integer", ".spec.targetPorts[0].number", 0),
            ("Picker", "string", ".spec.endpointPickerRef.name", 1),
            ("Selector", "string", ".spec.selector.matchLabels", 1),
            ("Accepted", "string", '.status.parents[0].conditions[?(@.type=="Accepted")].status', 1),
            _AGE,
        ),
        status=True,
        annotations=_APPROVED,
    ),
    Definition(
        kind=llmd.VariantAutoscaling,
        short_names=("va",),
        categories=("headgate", "llmd"),
        columns=(
            ("Model", "string", ".spec.modelID", 0),
            ("VariantID", "string", ".spec.variantID", 0),
            ("Accelerator", "string", ".spec.accelerator", 0),
            ("CurrentReplicas", "integer", ".status.currentAlloc.numReplicas", 0),
            ("Optimized", "integer", ".status.desiredOptimizedAlloc.numReplicas", 0),
            ("MetricsReady", "string", '.status.conditions[?(@.type=="MetricsAvailable")].status', 0),
            _AGE,
        ),
        status=True,
    ),
    Definition(
        kind=tenants.Tenant,
        short_names=("tn",),
        categories=("headgate",),
        columns=(
            ("Share", "integer", ".spec.share", 0),
            ("Models", "string", ".spec.models", 0),
            ("Max Priority", "integer", ".spec.priority.max", 1),
            _AGE,
        ),
    ),
)

_REPLICAS = (".spec.replicas", ".status.replicas", ".spec.selector")

_BUILTIN = (
    Definition(kind=core.Namespace, short_names=("ns",), status=True),
    Definition(kind=core.Pod, short_names=("po",), categories=("all",), status=True),
    Definition(kind=core.Service, short_names=("svc",), categories=("all",), status=True),
    Definition(kind=core.ConfigMap, short_names=("cm",)),
    Definition(kind=core.Secret),
    Definition(kind=core.ServiceAccount, short_names=("sa",)),
    Definition(kind=core.Node, short_names=("no",), status=True),
    Definition(kind=core.Event, short_names=("ev",)),
    Definition(
        kind=apps.Deployment,
        short_names=("deploy",),
        categories=("all",),
        status=True,
        scale=_REPLICAS,
    ),
    Definition(kind=apps.ReplicaSet, short_names=("rs",), categories=("all",), status=True, scale=_REPLICAS),
    Definition(
        kind=apps.StatefulSet,
        short_names=("sts",),
        categories=("all",),
        status=True,
        scale=_REPLICAS,
    ),
    Definition(kind=apps.ControllerRevision),
    Definition(
        kind=horizontal.HorizontalPodAutoscaler,
        also=(horizontal.HorizontalPodAutoscalerV1,),
        short_names=("hpa",),
        categories=("all",),
        status=True,
    ),
    Definition(
        kind=discovery_kinds.Endpoints,
        short_names=("ep",),
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    Definition(kind=discovery_kinds.EndpointSlice),
    Definition(kind=apps.Lease),
    Definition(
        kind=extensions.CustomResourceDefinition,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
    ),
)
"""The API server has tables of its own for these kinds; only kinds without one need columns."""


_UNAPPROVED = {"api-approved.kubernetes.io": "unapproved, the definition of the embedded API server"}
_BORROWED = (
    Definition(
        kind=gateways.GatewayClass,
        short_names=("gc",),
        categories=("gateway-api",),
        columns=(
            ("Controller", "string", ".spec.controllerName", 0),
            ("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status', 0),
            _AGE,
            ("Description", "string", ".spec.description", 1),
        ),
        status=True,
        annotations=_UNAPPROVED,
    ),
    Definition(
        kind=gateways.Gateway,
        short_names=("gtw",),
        categories=("gateway-api",),
        columns=(
            ("Class", "string", ".spec.gatewayClassName", 0),
            ("Address", "string", ".status.addresses[*].value", 0),
            ("Programmed", "string", '.status.conditions[?(@.type=="Programmed")].status', 0),
            _AGE,
        ),
        status=True,
        annotations=_UNAPPROVED,
    ),
    Definition(
        kind=http_routes.HttpRoute,
        categories=("gateway-api",),
        columns=(("Hostnames", "string", ".spec.hostnames", 0), _AGE),
        status=True,
        annotations=_UNAPPROVED,
    ),
    Definition(
        kind=reference_grants.ReferenceGrant,
        also=(reference_grants.ReferenceGrantV1,),
        short_names=("refgrant",),
        categories=("gateway-api",),
        annotations=_UNAPPROVED,
    ),
    Definition(
        kind=leaderworkersets.LeaderWorkerSet,
        short_names=("lws",),
        columns=(
            ("Ready", "integer", ".status.readyReplicas", 0),
            ("Desired", "integer", ".spec.replicas", 0),
            ("Up-to-date", "integer", ".status.updatedReplicas", 0),
            _AGE,
        ),
        status=True,
        annotations=_UNAPPROVED,
        scale=(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
        pod_templates=(
            ("spec", "leaderWorkerTemplate", "leaderTemplate"),
            ("spec", "leaderWorkerTemplate", "workerTemplate"),
        ),
    ),
)


def borrowed_definitions() -> list[dict[str, Any]]:
    """Kinds of other projects that Headgate reads, for the embedded API server. In a cluster, their projects
    install them."""
    return [_manifest(definition, is_builtin=False) for definition in _BORROWED]


def custom_definitions() -> list[dict[str, Any]]:
    """CustomResourceDefinitions of Headgate's own kinds, as plain objects."""
    return [_manifest(definition, is_builtin=False) for definition in _CUSTOM]


def builtin_definitions() -> list[dict[str, Any]]:
    """The kinds of Kubernetes that Headgate uses, in the form of CustomResourceDefinitions."""
    return [_manifest(definition, is_builtin=True) for definition in _BUILTIN]


def custom_resources() -> list[Resource]:
    """The resources of Headgate's own kinds, in every version."""
    kinds = (kind for definition in _CUSTOM for kind in (definition.kind, *definition.also))
    return [kind.resource for kind in kinds]  # type: ignore[attr-defined]


def builtin_resources() -> list[Resource]:
    """The resources of Kubernetes' kinds, in every version."""
    kinds = (kind for definition in _BUILTIN for kind in (definition.kind, *definition.also))
    return [kind.resource for kind in kinds]  # type: ignore[attr-defined]


def _schema(
    kind: type[msgspec.Struct], pod_templates: tuple[tuple[str, ...], ...], *, is_builtin: bool
) -> dict[str, Any]:
    if not is_builtin:
        # a copy, which the caller may change
        own: dict[str, Any] = msgspec.json.decode(_encoded_schema(kind, pod_templates))
        return own
    resource = kind.resource  # type: ignore[attr-defined]
    return kubernetes.completed(
        resource.api_version, resource.kind, schema.structural(kind, keep_unknown=True)
    )


@functools.cache
def _encoded_schema(kind: type[msgspec.Struct], pod_templates: tuple[tuple[str, ...], ...]) -> bytes:
    """Cached: inspecting the types of a kind takes a hundred times as long as decoding the result."""
    made = schema.structural(kind)
    for *parents, name in pod_templates:
        fields = made["properties"]
        for parent in parents:
            fields = fields[parent]["properties"]
        fields[name] = kubernetes.embedded_pod_template(fields[name])
    return msgspec.json.encode(made)


def _manifest(definition: Definition, *, is_builtin: bool) -> dict[str, Any]:
    resource = definition.kind.resource  # type: ignore[attr-defined]
    subresources: dict[str, Any] = {}
    if definition.status:
        subresources["status"] = {}
    if definition.scale:
        names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        subresources["scale"] = dict(zip(names, definition.scale, strict=True))
    versions = [
        {
            "name": kind.resource.version,  # type: ignore[attr-defined]
            "served": True,
            "storage": kind is definition.kind,
            "schema": {"openAPIV3Schema": _schema(kind, definition.pod_templates, is_builtin=is_builtin)},
            "subresources": subresources,
            "additionalPrinterColumns": [_column(column) for column in definition.columns],
            **(
                {"deprecated": True, "deprecationWarning": definition.deprecation}
                if definition.deprecation
                else {}
            ),
        }
        for kind in (definition.kind, *definition.also)
    ]
    return {
        "apiVersion": extensions.CustomResourceDefinition.resource.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified_name}
        | ({"annotations": definition.annotations} if definition.annotations else {}),
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": list(definition.short_names),
                "categories": list(definition.categories),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": versions,
        },
    }


def _column(column: Column) -> dict[str, Any]:
    name, type_, path, priority = column
    shown = {"name": name, "type": type_, "jsonPath": path}
    return shown | {"priority": priority} if priority else shown
