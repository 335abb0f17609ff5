"""Kthena 0.1 to 1.0: networking.serving.volcano.sh and workload.serving.volcano.sh."""

from __future__ import annotations

from headgate.api import kthena_networking, kthena_registry, marks
from headgate.api.forms.tables import Field, Form, Output, Remark, Setting, Unserved

_NETWORKING = ("networking.serving.volcano.sh/v1alpha1",)
_WORKLOAD = ("workload.serving.volcano.sh/v1alpha1",)
_BINDING = "AutoscalingPolicyBinding"

_NO_SCHEDULER = "Headgate creates no Pods from a Model yet, and a Model has no such field"
_IN_DEPLOYMENT = "set it in the Pod template of your Deployment"
_METRIC_PAGE = "write the name of the metric, as the Pods expose it, into spec.metrics[].metricName"


def _metrics(path: str, to: str, needs: str = "") -> Field:
    """In Kthena 1.0, metrics of a policy have a key, and their sources are listed by this key."""
    return Field(f"{path}.metrics[].name", (f"{to}.metrics[].metricName",), needs=needs)


def _target(path: str, to: str) -> tuple[Field, ...]:
    """A scaling target: its metrics page as in 0.1, or one for each metric as in 1.0."""
    sources = f"{path}.metricSources{{}}"
    pod = f"{sources}.pod"
    return (
        Field(f"{path}.targetRef", (f"{to}.targetRef",)),
        Field(f"{path}.additionalMatchLabels", (f"{to}.additionalMatchLabels",)),
        Field(f"{path}.metricEndpoint", (f"{to}.metricEndpoint",)),
        Field(f"{path}.metricEndpoint.labelSelector.matchLabels", (f"{to}.additionalMatchLabels",)),
        Field(
            f"{path}.metricEndpoint.labelSelector.matchExpressions",
            instead="only labels with one value select the Pods that are measured",
            fix="use matchLabels",
        ),
        Field(f"{sources}.type", harmless=("Pod", "Prometheus")),
        Field(f"{pod}.uri", (f"{to}.metricEndpoint.uri",)),
        Field(f"{pod}.port", (f"{to}.metricEndpoint.port",)),
        Field(f"{pod}.labelSelector.matchLabels", (f"{to}.additionalMatchLabels",)),
        Field(
            f"{pod}.labelSelector.matchExpressions",
            instead="only labels with one value select the Pods that are measured",
            fix="use matchLabels",
        ),
        Field(f"{pod}.name", instead="metrics are found by spec.metrics[].metricName", fix=_METRIC_PAGE),
        Field(
            f"{sources}.prometheus",
            instead="metrics are read from Pods, not from Prometheus",
            fix="use a metric that the Pods expose",
        ),
    )


def _bounds(path: str, to: str) -> tuple[Field, ...]:
    return tuple(Field(f"{path}.{name}", (f"{to}.{name}",)) for name in ("minReplicas", "maxReplicas"))


def _targets(kind: str) -> tuple[Field, ...]:
    """Both ways to scale, which are fields of a binding here."""
    one, several = f"{kind}spec.scalingConfiguration", f"{kind}spec.optimizerConfiguration"
    params, items = "spec.heterogeneousTarget.params[]", f"{several}.params[]"
    return (
        *_target("spec.homogeneousTarget.target", f"{one}.target"),
        *_bounds("spec.homogeneousTarget", one),
        *_target(f"{params}.target", f"{items}.target"),
        *_bounds(params, items),
        Field(f"{params}.cost", (f"{items}.cost",)),
        Field("spec.heterogeneousTarget.costExpansionRatePercent", (f"{several}.costExpansionRatePercent",)),
    )


ROUTE = Form(
    "ModelRoute",
    "modelroutes",
    _NETWORKING,
    (Output(kthena_networking.ModelRoute.resource),),
    (
        Field(
            "spec.parentRefs",
            instead="the route serves requests at every gateway that follows its namespace",
            fix="to keep routes apart, install one release for each namespace: watchNamespace of the chart",
        ),
        Field(
            "spec.rules[].targetModels[].externalModelProviderName",
            removes="spec.rules[].targetModels[]",
            instead="the target is left out, and the other targets of the rule get its requests",
            fix="Headgate has no external providers: let clients call them directly, or through a proxy",
        ),
        Field(
            "spec.rateLimit.global.redis.password",
            instead="the gateway reads the password from its environment",
            fix="set REDIS_PASSWORD of the gateways, and rate_limits.redis_hosts",
        ),
    ),
)

SERVER = Form("ModelServer", "modelservers", _NETWORKING, (Output(kthena_networking.ModelServer.resource),))

BOOSTER = Form(
    "ModelBooster",
    "modelboosters",
    _WORKLOAD,
    (
        Output(
            kthena_registry.Model.resource,
            (
                Setting("spec.backends[0].minReplicas", 1, needs="spec.backend", why="Kthena's default"),
                Setting("spec.backends[0].maxReplicas", 1, needs="spec.backend", why="Kthena's default"),
            ),
        ),
    ),
    (
        Field("spec.backend", ("spec.backends[0]",)),
        Field("spec.backend.replicas", ("spec.backends[0].minReplicas", "spec.backends[0].maxReplicas")),
        Field("spec.backend.schedulerName", instead=_NO_SCHEDULER, fix=_IN_DEPLOYMENT),
        Field("spec.backend.runtimeClassName", instead=_NO_SCHEDULER, fix=_IN_DEPLOYMENT),
        Field("spec.backend.workers[].tolerations", instead=_NO_SCHEDULER, fix=_IN_DEPLOYMENT),
        # With one backend, a policy for all backends is that of the backend.
        Field("spec.autoscalingPolicy", ("spec.backends[0].autoscalingPolicy",), needs="spec.backend"),
        _metrics("spec.autoscalingPolicy", "spec.backends[0].autoscalingPolicy", needs="spec.backend"),
        # Until the end of 2025 it had a list of backends, as a Model has.
        _metrics("spec.autoscalingPolicy", "spec.autoscalingPolicy"),
        _metrics("spec.backends[].autoscalingPolicy", "spec.backends[].autoscalingPolicy"),
    ),
)

POLICY = Form(
    "AutoscalingPolicy",
    "autoscalingpolicies",
    _WORKLOAD,
    (
        Output(kthena_registry.AutoscalingPolicy.resource),
        Output(
            kthena_registry.AutoscalingPolicyBinding.resource,
            (Setting("spec.policyRef.name", "{metadata.name}", why="the policy that it was part of"),),
        ),
    ),
    (
        _metrics("spec", "spec"),
        *_targets(f"{_BINDING}:"),
        Field(
            "spec.disaggregatedTarget",
            instead="roles of a disaggregated workload are not scaled together",
            fix="write an AutoscalingPolicy and an AutoscalingPolicyBinding for the workload of each role",
        ),
    ),
)

BINDING = Form(
    _BINDING,
    "autoscalingpolicybindings",
    _WORKLOAD,
    (Output(kthena_registry.AutoscalingPolicyBinding.resource),),
    _targets(""),
)

FORMS = (ROUTE, SERVER, BOOSTER, POLICY, BINDING)

_WORKLOADS = (
    "Headgate does not create its Pods. ModelServers select the Pods that exist, whoever creates them"
)
_KEEP_CONTROLLER = "keep Kthena's controller for it, or write a Deployment or StatefulSet"

UNSERVED = (
    Unserved("ModelServing", "modelservings", _WORKLOAD, _WORKLOADS, _KEEP_CONTROLLER),
    Unserved("ModelInfer", "modelinfers", ("workload.volcano.sh/v1alpha1",), _WORKLOADS, _KEEP_CONTROLLER),
    Unserved(
        "ExternalModelProvider",
        "externalmodelproviders",
        _NETWORKING,
        "no request is sent to an external provider",
        "let clients call the provider directly, or through a proxy",
    ),
)

_SERVER = kthena_networking.ModelServer.resource

REMARKS = (
    Remark(
        _SERVER,
        "spec.workloadPort.protocol",
        "the gateway uses TLS and verifies certificates, whereas Kthena's router always uses plain HTTP",
        f"if the engines speak HTTP, set it to http; otherwise see the annotations {marks.DOMAIN}tls-*",
        values=("https",),
        without=marks.ANNOTATIONS,
        changes_service=True,
    ),
    Remark(
        _SERVER,
        "spec.trafficPolicy.retry.attempts",
        "it takes effect, whereas Kthena's router ignores it: failed requests are retried so many times",
    ),
    Remark(
        _SERVER,
        "spec.trafficPolicy.timeout",
        "it limits each attempt until response headers, with pdGroup too. Kthena's router ignored it before "
        "1.0, and later with pdGroup",
    ),
)
