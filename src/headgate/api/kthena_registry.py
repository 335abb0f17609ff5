"""The registry dialect of Kthena, registry.volcano.sh/v1alpha1: Model, AutoscalingPolicy and its Binding.

A Model describes what runs: backends of one model, their workers, adapters and bounds. An AutoscalingPolicy
sets target values of metrics, and how fast a number of replicas may change; an AutoscalingPolicyBinding
applies it to workloads.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from headgate.api import kthena_model_rules as model_rules
from headgate.api.containers import Affinity, EnvFromSource, EnvVar, ResourceRequirements
from headgate.api.core import LocalObjectReference, ObjectReference
from headgate.api.expressions import WINDOW, Validation, rule
from headgate.api.kthena_networking import ModelMatch, ObservedStatus
from headgate.api.meta import BY_TYPE, Condition, ObjectMeta, Part, Resource, described
from headgate.kubeschema import quantity

GROUP, VERSION = "registry.volcano.sh", "v1alpha1"

_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_SOURCE = r"^(hf://|s3://|pvc://).+"
_ATOMIC_LIST = {"x-kubernetes-list-type": "atomic"}
_ATOMIC_MAP = {"x-kubernetes-map-type": "atomic"}
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_MILLION = model_rules.LARGEST_SUM
_HISTORY_LENGTH = 65536

# --- scaling by metrics ---------------------------------------------------------------------------------


class AutoscalingPolicyMetric(Part, frozen=True, kw_only=True):
    metric_name: Annotated[
        str, described("A signal of gateways (headgate:*), a query (prometheus:*), or a metric of the Pods.")
    ]
    target_value: Annotated[
        int | str, described("Value that each replica should have, above 0.", **quantity.POSITIVE)
    ]


class AutoscalingPolicyStablePolicy(Part, frozen=True, kw_only=True):
    instances: Annotated[
        int, Meta(ge=0), described("How many replicas may come or go in one period.", format="int32")
    ] = 1
    percent: Annotated[
        int,
        Meta(ge=0, le=1000),
        described("The same as a percentage of the replicas at its start.", format="int32"),
    ] = 100
    period: Annotated[str, described("The time that instances and percent are for.", **WINDOW)] = "15s"
    select_policy: Annotated[
        Literal["Or", "And"],
        described("Or: the larger of the two changes is allowed; And: the smaller."),
    ] = "Or"
    stabilization_window: Annotated[
        str | None,
        described("How long a change must have been recommended before it is made.", **WINDOW),
    ] = None


class AutoscalingPolicyPanicPolicy(Part, frozen=True, kw_only=True):
    percent: Annotated[
        int,
        Meta(ge=0, le=1000),
        described("By how many percent the replicas may grow in one period.", format="int32"),
    ] = 1000
    period: Annotated[str, described("The time that percent is for.", **WINDOW)]
    panic_threshold_percent: Annotated[
        int,
        Meta(ge=110, le=1000),
        described("Panic begins when this many percent of the replicas would be needed.", format="int32"),
    ] = 200
    panic_mode_hold: Annotated[
        str, described("How long panic lasts after its cause was last seen.", **WINDOW)
    ] = "60s"


class AutoscalingPolicyScaleUpPolicy(Part, frozen=True, kw_only=True):
    stable_policy: Annotated[
        AutoscalingPolicyStablePolicy, described("How fast replicas come in ordinary times.")
    ] = AutoscalingPolicyStablePolicy()
    panic_policy: Annotated[
        AutoscalingPolicyPanicPolicy | None,
        described("How fast they come in a sudden surge. Unset: no faster."),
    ] = None


class AutoscalingPolicyBehavior(Part, frozen=True, kw_only=True):
    scale_up: Annotated[AutoscalingPolicyScaleUpPolicy, described("How fast replicas come.")] = (
        AutoscalingPolicyScaleUpPolicy()
    )
    scale_down: Annotated[AutoscalingPolicyStablePolicy, described("How fast replicas go.")] = (
        AutoscalingPolicyStablePolicy()
    )


class AutoscalingPolicySpec(Part, frozen=True, kw_only=True):
    tolerance_percent: Annotated[
        int,
        Meta(ge=0, le=100),
        described("Nothing changes while fewer percent of the replicas would.", format="int32"),
    ] = 10
    metrics: Annotated[
        list[AutoscalingPolicyMetric],
        Meta(min_length=1),
        described(
            "What is measured, each metric once; the metric that asks for most replicas decides.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["metricName"]},
        ),
    ]
    behavior: Annotated[AutoscalingPolicyBehavior, described("How fast the number may change.")] = (
        AutoscalingPolicyBehavior()
    )


class AutoscalingPolicy(Part, frozen=True, kw_only=True):
    """AutoscalingPolicy says which metrics should have which values, and how fast replicas come and go."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "AutoscalingPolicy", "autoscalingpolicies")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AutoscalingPolicySpec, described("Which metrics, and how fast.")]
    status: Annotated[ObservedStatus | None, described("What is observed.")] = None


# --- bindings -------------------------------------------------------------------------------------------


class MetricEndpoint(Part, frozen=True, kw_only=True):
    uri: Annotated[str, described("Path of the page with the metrics.")] = "/metrics"
    port: Annotated[int, described("Port of the Pods that serves the page.", format="int32")] = 8100


class Target(Part, frozen=True, kw_only=True):
    target_ref: Annotated[
        ObjectReference, described("The object whose replicas are counted and changed.", **_ATOMIC_MAP)
    ]
    additional_match_labels: Annotated[
        dict[str, str], described("Labels that Pods of the target must have besides, to be measured.")
    ] = {}
    metric_endpoint: Annotated[MetricEndpoint, described("Where each Pod shows its metrics.")] = (
        MetricEndpoint()
    )


class ScalingConfiguration(Part, frozen=True, kw_only=True):
    target: Annotated[Target | None, described("What is measured and scaled.")] = None
    min_replicas: Annotated[
        int, Meta(ge=0, le=_MILLION), described("Never fewer replicas than this.", format="int32")
    ]
    max_replicas: Annotated[
        int, Meta(ge=1, le=_MILLION), described("Never more replicas than this.", format="int32")
    ]


class OptimizerParam(ScalingConfiguration, frozen=True, kw_only=True):
    cost: Annotated[
        int,
        Meta(ge=0),
        described("What one replica costs, in a unit that all params share.", format="int32"),
    ] = 0


class OptimizerConfiguration(Part, frozen=True, kw_only=True):
    params: Annotated[
        list[OptimizerParam], Meta(min_length=1), described("The targets that share the load.")
    ] = []
    cost_expansion_rate_percent: Annotated[
        int,
        Meta(ge=0),
        described("How much larger each further step of the same target is, in percent.", format="int32"),
    ] = 200


class AutoscalingPolicyBindingSpec(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[Validation]] = [
        rule(
            "has(self.optimizerConfiguration) != has(self.scalingConfiguration)",
            "exactly one of scalingConfiguration and optimizerConfiguration must be set",
        ),
        rule(
            "has(self.policyRef.name) && self.policyRef.name != ''",
            "must name an AutoscalingPolicy in the same namespace",
            at=".policyRef.name",
        ),
    ]

    policy_ref: Annotated[
        LocalObjectReference,
        described("The AutoscalingPolicy in the same namespace that decides.", **_ATOMIC_MAP),
    ]
    scaling_configuration: Annotated[
        ScalingConfiguration | None, described("Scale one target by its metrics.")
    ] = None
    optimizer_configuration: Annotated[
        OptimizerConfiguration | None, described("Split the replicas among several targets by their cost.")
    ] = None


class AutoscalingMetricStatus(Part, frozen=True, kw_only=True):
    metric_name: Annotated[str, described("Name of the metric.")]
    value: Annotated[
        str,
        described("Sum over the replicas, or their mean if it is a ratio. Empty: it could not be measured."),
    ] = ""
    target_value: Annotated[str, described("The value that each replica should have.")] = ""
    desired_replicas: Annotated[
        int | None, described("Replicas that the metric asks for. Unset: it has no opinion.", format="int32")
    ] = None


class AutoscalingTargetStatus(Part, frozen=True, kw_only=True):
    kind: Annotated[str, described("Kind of the workload whose replicas are written.")]
    name: Annotated[str, described("Name of the workload.")]
    namespace: Annotated[str, described("Namespace of the workload.")] = ""
    current_replicas: Annotated[int, described("Replicas that the workload has to have.", format="int32")] = 0
    ready_replicas: Annotated[int, described("Those that are ready.", format="int32")] = 0
    desired_replicas: Annotated[int, described("Replicas that it was told to have.", format="int32")] = 0


class AutoscalingPolicyBindingStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition],
        described("Ready, TargetFound, MetricsAvailable, ScalingLimited and ResolvedRefs.", **BY_TYPE),
    ] = []
    observed_generation: Annotated[
        int | None, described("The metadata.generation that the status was made from.")
    ] = None
    current_replicas: Annotated[
        int | None, described("Replicas of all targets before the last decision.", format="int32")
    ] = None
    desired_replicas: Annotated[
        int | None, described("Replicas of all targets by the last decision.", format="int32")
    ] = None
    recommended_replicas: Annotated[
        int | None,
        described("What the metrics ask for, before any rule bounds it. Unset: nothing.", format="int32"),
    ] = None
    metric_name: Annotated[str, described("The metric that decided. Empty: none did.")] = ""
    value: Annotated[str, described("Its sum over the replicas, or their mean if it is a ratio.")] = ""
    target_value: Annotated[str, described("The value that each replica should have.")] = ""
    rule: Annotated[
        str,
        described(
            "What bounded the recommendation: Tolerance, NotReady, MetricMissing, StabilizationWindow, Rate, "
            "Panic, Minimum, Maximum, Forecast, Zero or Waking. Empty: nothing did."
        ),
    ] = ""
    held_until: Annotated[
        str | None,
        described(
            "When a window, a rate, panic or the grace period can allow more, at the earliest.",
            format="date-time",
        ),
    ] = None
    mode: Annotated[str, described("Stable or Panic.")] = ""
    panic_until: Annotated[
        str | None, described("When panic ends if its cause is not seen again.", format="date-time")
    ] = None
    last_scale_time: Annotated[
        str | None, described("When replicas were last changed.", format="date-time")
    ] = None
    message: Annotated[str, described("The last decision as a sentence.")] = ""
    metrics: Annotated[
        list[AutoscalingMetricStatus], described("What each metric said.", **_ATOMIC_LIST)
    ] = []
    targets: Annotated[
        list[AutoscalingTargetStatus], described("The workloads, in the order of the spec.", **_ATOMIC_LIST)
    ] = []
    history: Annotated[
        str,
        described("What the controller remembers over a restart, for it alone.", maxLength=_HISTORY_LENGTH),
    ] = ""


class AutoscalingPolicyBinding(Part, frozen=True, kw_only=True):
    """AutoscalingPolicyBinding lets an AutoscalingPolicy decide the number of replicas of its targets."""

    resource: ClassVar[Resource] = Resource(
        GROUP, VERSION, "AutoscalingPolicyBinding", "autoscalingpolicybindings"
    )

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AutoscalingPolicyBindingSpec, described("Which policy, and whose replicas.")]
    status: Annotated[
        AutoscalingPolicyBindingStatus | None, described("How many replicas there should be, and why.")
    ] = None


# --- models ---------------------------------------------------------------------------------------------


class LoraAdapter(Part, frozen=True, kw_only=True):
    name: Annotated[
        str, Meta(max_length=253, pattern=_NAME), described("Name that requests call the adapter by.")
    ]
    artifact_url: Annotated[
        str, Meta(pattern=_SOURCE), described("Where the adapter is: hf://, s3:// or pvc://.")
    ] = field(name="artifactURL")


_IMAGE = {
    "x-kubernetes-validations": [
        rule(r"!self.matches('\\s')", "must not have spaces; leave it out for the engine's default image")
    ]
}


class ModelWorker(Part, frozen=True, kw_only=True):
    type: Annotated[
        Literal["server", "prefill", "decode", "controller", "coordinator"],
        described("What the worker does; server does all of it."),
    ] = "server"
    image: Annotated[str, Meta(max_length=512), described("Container image of the engine.", **_IMAGE)] = ""
    replicas: Annotated[
        Annotated[int, Meta(ge=0, le=_MILLION)] | None,
        described("Workers of this kind in one replica of the backend.", format="int32"),
    ] = None
    pods: Annotated[
        Annotated[int, Meta(ge=0, le=_MILLION)] | None,
        described("Pods that make up one worker; more than one spans machines.", format="int32"),
    ] = None
    resources: Annotated[ResourceRequirements, described("What each Pod of the worker needs.")] = (
        ResourceRequirements()
    )
    affinity: Annotated[Affinity | None, described("Which machines suit the Pods.")] = None
    config: Annotated[
        Any, described("Flags of the engine by name, without the dashes; any JSON value is passed on.")
    ] = None


class ModelBackend(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[Validation]] = model_rules.OF_BACKENDS

    name: Annotated[
        str,
        Meta(max_length=253, pattern=_NAME),
        described("Name of the backend, unique in the Model. A new name replaces what runs."),
    ]
    type: Annotated[
        Literal["vLLM", "vLLMDisaggregated", "SGLang", "MindIE", "MindIEDisaggregated"],
        described("The engine, and whether prefill and decode run apart."),
    ]
    model_uri: Annotated[
        str, Meta(pattern=_SOURCE), described("Where the weights come from: hf://, s3:// or pvc://.")
    ] = field(name="modelURI")
    cache_uri: Annotated[
        Annotated[str, Meta(pattern=r"^(hostpath://|pvc://).+")] | None,
        described("Where downloaded weights are kept: hostpath:// or pvc://. Unset: with the Pod."),
    ] = field(default=None, name="cacheURI")
    env_from: Annotated[
        list[EnvFromSource],
        described("ConfigMaps and Secrets whose keys become environment variables.", **_ATOMIC_LIST),
    ] = []
    env: Annotated[
        list[EnvVar],
        described(
            "Environment variables. ENDPOINT and HF_ENDPOINT tell the download where to go; RUNTIME_URL,"
            " RUNTIME_PORT and RUNTIME_METRICS_PATH where engine and sidecar listen.",
            **_BY_NAME,
        ),
    ] = []
    min_replicas: Annotated[
        int, Meta(ge=0, le=_MILLION), described("Never fewer replicas than this.", format="int32")
    ]
    max_replicas: Annotated[
        int, Meta(ge=1, le=_MILLION), described("Never more replicas than this.", format="int32")
    ]
    scaling_cost: Annotated[
        int,
        Meta(ge=0),
        described("What one replica costs, in any unit that all backends share.", format="int32"),
    ] = 0
    route_weight: Annotated[
        int,
        Meta(ge=0, le=100),
        described("Share of the traffic, relative to the weights of the other backends.", format="int32"),
    ] = 100
    scale_to_zero_grace_period: Annotated[
        str | None,
        described("How long there must be no requests before the last replica goes.", **WINDOW),
    ] = None
    workers: Annotated[
        list[ModelWorker],
        Meta(min_length=1, max_length=1000),
        described("The programs that make up one replica of the backend."),
    ]
    lora_adapters: Annotated[
        list[LoraAdapter],
        Meta(max_length=1000),
        described("LoRA adapters that the backend serves, each once.", **_BY_NAME),
    ] = []
    autoscaling_policy: Annotated[
        AutoscalingPolicySpec | None, described("How the replicas of this backend alone are decided.")
    ] = None


class ModelSpec(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[Validation]] = model_rules.OF_SPECS

    name: Annotated[
        Annotated[str, Meta(max_length=64, pattern=_NAME)] | None,
        described("Name that requests call the model by. Unset: the name of the object."),
    ] = None
    owner: Annotated[str | None, described("Who answers for the model; for information.")] = None
    backends: Annotated[
        list[ModelBackend],
        Meta(min_length=1, max_length=32),
        described("The deployments of the model, one per engine or kind of machine.", **_BY_NAME),
    ]
    autoscaling_policy: Annotated[
        AutoscalingPolicySpec | None,
        described("How the replicas of all backends together are decided, and split by cost."),
    ] = None
    cost_expansion_rate_percent: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        described("How much larger each further step of the same backend is, in percent.", format="int32"),
    ] = None
    model_match: Annotated[
        ModelMatch | None, described("Conditions for requests to reach the model. Unset: its name alone.")
    ] = None


class ModelAdapterStatus(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the adapter.")]
    state: Annotated[
        Literal["Loading", "Loaded", "Failed"],
        described("Loaded once every ready Pod of the backend has it; Failed if one could not load it."),
    ]
    loaded: Annotated[int, described("Pods that have it.", format="int32")] = 0
    error: Annotated[str, described("Why it could not be loaded, with the name of a Pod.")] = ""


class ModelBackendStatus(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the backend.")]
    replicas: Annotated[int, described("Replicas that run.", format="int32")]
    ready_replicas: Annotated[int, described("Replicas of which every worker is ready.", format="int32")] = 0
    adapters: Annotated[
        list[ModelAdapterStatus], described("How each LoRA adapter stands.", **_ATOMIC_LIST)
    ] = []


class ModelStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition], described("Initialized, Active, Failed and what else was found out.", **BY_TYPE)
    ] = []
    backend_statuses: Annotated[
        list[ModelBackendStatus], described("How each backend stands.", **_ATOMIC_LIST)
    ] = []
    observed_generation: Annotated[
        int | None, described("The metadata.generation that the status was made from.")
    ] = None


class Model(Part, frozen=True, kw_only=True):
    """Model runs one model on one or several backends, routes requests to them and scales them."""

    validations: ClassVar[list[Validation]] = model_rules.OF_MODELS

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Model", "models")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ModelSpec, described("What runs.")]
    status: Annotated[ModelStatus | None, described("What is observed.")] = None
