"""Where each rule for Headgate's own kinds is enforced in a cluster.

The embedded API server enforces all of them itself. An API server of Kubernetes knows its definitions and
policies. For the rest it asks the webhook, if that is installed: rules that need other objects, or compile
costly regular expressions. Objects of Kubernetes' own kinds have Kubernetes' own rules.

Each rule has a case in tests/api/admission/cases, by which tests prove that it is enforced there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["RULES", "EnforcedBy", "Rule"]


class EnforcedBy(enum.Enum):
    """What enforces a rule in a cluster."""

    DEFINITION = "definition"
    """The CustomResourceDefinition: a limit, a list type, or a rule in CEL."""
    POLICY = "policy"
    """A ValidatingAdmissionPolicy of the chart."""
    WEBHOOK = "webhook"
    """`headgate webhook`."""
    MANIFEST = "manifest"
    """Nothing: an API server fills in defaults first. `headgate apply` and `headgate validate` warn."""


class Rule(NamedTuple):
    """One rule of a kind."""

    kind: str
    name: str
    by: EnforcedBy
    is_error: bool
    """Otherwise, it is a warning."""


_ERRORS: dict[EnforcedBy, dict[str, tuple[str, ...]]] = {
    EnforcedBy.DEFINITION: {
        "ModelRoute": (
            *("name-or-adapters", "name-immutable", "control-characters", "adapter-empty"),
            *("one-condition", "regex-invalid", "headers-counted", "targets-missing", "target-unnamed"),
        ),
        "ModelServer": ("control-characters", "labels-missing", "roles-missing", "duration-too-long"),
        "Model": (
            *("replicas-in-order", "replicas-sum", "image-spaces", "grace-period", "regex-invalid"),
            *("one-worker", "workers-disaggregated", "workers-mindie", "roles-missing"),
            *("adapter-twice", "adapter-model"),
            *("policy-twice", "policy-cost", "policy-replicas", "backend-policy-replicas"),
            *("policy-targets", "policy-windows", "sources"),
            *("no-policy-rate", "no-policy-cost", "no-policy-grace", "no-policy-replicas"),
        ),
        "AutoscalingPolicy": ("target-positive", "metric-twice", "windows"),
        "AutoscalingPolicyBinding": ("one-configuration", "policy-unnamed"),
        "InferencePool": ("ports-unique", "picker-port"),
        "InferenceModel": ("control-characters",),
    },
    EnforcedBy.POLICY: {"Model": ("requests-above-limits", "amounts-negative")},
    EnforcedBy.WEBHOOK: {
        "ModelRoute": (
            *("regex-costly-invalid", "regex-too-large"),
            *("fallback-invalid", "fallback-itself"),
        ),
        "Model": ("config-flags", "config-port", "regex-costly-invalid"),
        "AutoscalingPolicyBinding": ("policy-missing",),
        "InferencePool": ("picker-external", "fallback-invalid"),
        "InferenceModel": ("fallback-invalid",),
    },
    EnforcedBy.MANIFEST: {"InferenceModel": ("weights-for-some",)},
}

_WARNINGS: dict[EnforcedBy, dict[str, tuple[str, ...]]] = {
    EnforcedBy.POLICY: {
        "ModelRoute": (
            "no-rules",
            "weights-zero",
            "limits-nothing",
            "global-alone",
            "limit-small",
            "redis-address",
        ),
        "ModelServer": ("connector-alone", "timeout-zero", "attempts-negative", "interval-negative"),
        "Model": ("weights-zero", "worker-zero", "no-policy-decides"),
        "AutoscalingPolicy": ("tolerance-all", "metric-unnamed", "signal-unknown"),
        "AutoscalingPolicyBinding": (
            *("bounds-crossed", "bounds-equal", "costs-zero", "target-unnamed"),
            *("path", "port"),
        ),
        "InferencePool": ("selector-empty", "port-zero", "served-model-alone", "connector-unknown"),
        "InferenceModel": ("name-empty", "weights-zero", "target-unnamed"),
        "VariantAutoscaling": ("variant-id", "accelerator"),
    },
    EnforcedBy.WEBHOOK: {
        "ModelRoute": (
            *("server-missing", "server-elsewhere", "rule-covered", "rule-name-twice", "target-twice"),
            *("other-route", "other-adapter", "adapter-of-other", "adapter-is-model", "model-unknown"),
            *("adapter-listed-twice", "adapter-is-name", "name-space"),
            *("path-relative", "path-query", "header-name", "header-twice", "condition-empty"),
            *("fallback-missing", "fallback-pool-missing", "fallback-alone", "fallback-misspelled"),
        ),
        "ModelServer": (
            *("label-key", "label-value", "pods-shared", "pods-wider", "pods-narrower"),
            *("group-key", "role-contradicts", "role-double-prefill", "role-double-decode"),
            *("annotation-unknown", "prefill-tokens-alone", "kv-events-alone"),
            *("start-invalid", "start-failed-alone", "pod-weights-invalid"),
            *("tls-alone", "tls-invalid", "tls-insecure"),
        ),
        "Model": ("other-name",),
        "AutoscalingPolicy": (
            *("panic-hold-zero", "panic-percent-zero", "period-zero", "steps-zero", "step-and-zero"),
            *("query-empty", "share-above-one"),
        ),
        "AutoscalingPolicyBinding": (
            *("target-twice", "target-elsewhere", "target-vague", "target-kind", "target-missing"),
            *("other-scaler", "annotation-unknown", "grace-invalid", "grace-alone"),
        ),
        "InferencePool": ("picker-missing", "protocol-invalid"),
        "InferenceModel": (
            *("pool-kind", "pool-missing", "pool-group", "pool-elsewhere", "target-twice"),
            *("name-older", "name-younger", "name-route", "name-other-pool", "fallback-misspelled"),
        ),
        "InferenceModelRewrite": (
            *("pool-missing", "no-targets", "name-twice", "others-twice", "weight-unset", "target-empty"),
        ),
        "VariantAutoscaling": (
            *("number-missing", "number-invalid", "objective-missing", "objective-key", "workload-missing"),
            *("annotation-unknown", "actuate-invalid"),
        ),
    },
    EnforcedBy.MANIFEST: {"InferenceModel": ("weight-unset",)},
}


def _rules() -> Iterator[Rule]:
    for table, is_error in ((_ERRORS, True), (_WARNINGS, False)):
        for by, kinds in table.items():
            for kind, names in kinds.items():
                yield from (Rule(kind, name, by, is_error) for name in names)


RULES: tuple[Rule, ...] = tuple(_rules())
