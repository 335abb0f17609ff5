"""Gateway API Inference Extension 0.1 to 1.5, and the kinds that llm-d's router took over from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.api import gateways, gie_v1, gie_v1alpha1, gie_v1alpha2, marks
from headgate.api.forms.tables import Field, Form, Output, Remark, Setting, Unserved

_V1ALPHA2 = ("inference.networking.x-k8s.io/v1alpha2",)
_PICKER = "spec.endpointPickerRef"
_ASKS_NOBODY = (
    "for requests to its own API, Headgate's gateway picks endpoints itself, and does not ask the picker"
)
_PICKER_CONFIGURATION = "pass the picker's configuration to the gateway: scheduling.config_file"

POOL = Form(
    "InferencePool",
    "inferencepools",
    _V1ALPHA2,
    (
        Output(
            gie_v1.InferencePool.resource,
            (
                Setting(
                    f"{_PICKER}.port.number",
                    9002,
                    needs="spec.extensionRef.name",
                    why="v1 requires a port, and this is the default of v1alpha2",
                ),
            ),
        ),
    ),
    (
        Field("spec.selector", ("spec.selector.matchLabels",)),
        Field("spec.targetPortNumber", ("spec.targetPorts[0].number",)),
        Field("spec.extensionRef", (_PICKER,)),
        Field("spec.extensionRef.portNumber", (f"{_PICKER}.port.number",)),
        Field("spec.extensionRef.targetPortNumber", (f"{_PICKER}.port.number",)),
    ),
)

_STANDARD = Field("spec.criticality", ("spec.criticality",), {"Standard": "Default"})

MODEL = Form(
    "InferenceModel",
    "inferencemodels",
    _V1ALPHA2,
    (
        Output(
            gie_v1alpha1.InferenceModel.resource,
            (
                Setting(
                    "spec.poolRef.group",
                    gie_v1.GROUP,
                    needs="spec.poolRef.name",
                    why="the pool of v1alpha2 becomes one of v1",
                ),
            ),
        ),
    ),
    (
        _STANDARD,
        Field("spec.poolRef.group", ("spec.poolRef.group",), {gie_v1alpha1.GROUP: gie_v1.GROUP}),
    ),
)

POOL_OF_V1ALPHA1 = Form(
    "InferencePool",
    "inferencepools",
    (gie_v1alpha1.InferencePool.resource.api_version,),
    (Output(gie_v1alpha1.InferencePool.resource),),
    (Field("spec.extensionRef", instead=_ASKS_NOBODY, fix=_PICKER_CONFIGURATION, changes_service=False),),
)

MODEL_OF_V1ALPHA1 = Form(
    "InferenceModel",
    "inferencemodels",
    (gie_v1alpha1.InferenceModel.resource.api_version,),
    (Output(gie_v1alpha1.InferenceModel.resource),),
    (_STANDARD,),
)

OBJECTIVE = Form(
    "InferenceObjective",
    "inferenceobjectives",
    ("llm-d.ai/v1alpha2",),
    (Output(gie_v1alpha2.InferenceObjective.resource),),
)

REWRITE = Form(
    "InferenceModelRewrite",
    "inferencemodelrewrites",
    ("llm-d.ai/v1alpha2",),
    (Output(gie_v1alpha2.InferenceModelRewrite.resource),),
)

FORMS = (POOL, MODEL, POOL_OF_V1ALPHA1, MODEL_OF_V1ALPHA1, OBJECTIVE, REWRITE)


def _leads_to_pool(route: Mapping[str, Any]) -> bool:
    """Whether an HTTPRoute has an InferencePool among its backends."""
    return any(
        isinstance(backend, Mapping) and str(backend.get("kind")).startswith("InferencePool")
        for rule in _items(route, "spec", "rules")
        for backend in _items(rule, "backendRefs")
    )


def _items(value: Any, *names: str) -> Iterator[Any]:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return iter(value if isinstance(value, list) else ())


UNSERVED = (
    Unserved(
        "HTTPRoute",
        "httproutes",
        ("gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"),
        "Headgate serves HTTPRoutes only of Gateways of its own class; to its own API, the model name of a "
        "request decides which pool serves",
        f"use a GatewayClass with controllerName {gateways.CONTROLLER}, or list the model names in the "
        f"annotation {marks.MODELS} of the InferencePool, or * for all names without another route",
        _leads_to_pool,
    ),
    Unserved(
        "InferencePoolImport",
        "inferencepoolimports",
        ("inference.networking.x-k8s.io/v1alpha1",),
        "pools of other clusters get no requests",
        "send requests to a gateway in the other cluster",
    ),
)

REMARKS = (
    Remark(gie_v1.InferencePool.resource, _PICKER, _ASKS_NOBODY, _PICKER_CONFIGURATION),
    Remark(
        gie_v1alpha2.InferenceObjective.resource,
        "spec.priority",
        "by default it has no effect: only trusted networks may name an objective, whereas a picker believes "
        "every client",
        "set clients.trusted_networks or queue.objectives_from of the gateway",
        changes_service=True,
    ),
    Remark(
        gie_v1alpha1.InferenceModel.resource,
        "spec.criticality",
        "requests of Default models are served before those of Sheddable ones. The picker that came with "
        "this kind treats both alike",
        values=("Default", "Sheddable"),
    ),
)
