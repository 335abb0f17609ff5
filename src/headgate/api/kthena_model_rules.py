"""Rules across the fields of a Model, in CEL: bounds, workers by type, and who decides the replicas."""

from __future__ import annotations

from typing import Final

from headgate.api.expressions import Validation, rule

__all__ = [
    "COST_EXPANSION_PERCENT",
    "DISAGGREGATED",
    "GRACE_PERIOD",
    "LARGEST_SUM",
    "MOST_DOWNLOADS",
    "OF_BACKENDS",
    "OF_MODELS",
    "OF_SPECS",
]

LARGEST_SUM: Final = 1_000_000
"""Replicas of all backends together."""

MOST_DOWNLOADS: Final = 10_000
"""Workers times downloads of each (weights and adapters), of all backends together: this many containers may
be made for them."""

GRACE_PERIOD: Final = "30s"
"""Default of scaleToZeroGracePeriod with a policy for all backends."""

COST_EXPANSION_PERCENT: Final = 200
"""Default of costExpansionRatePercent with a policy for all backends."""

DISAGGREGATED: Final = ("vLLMDisaggregated", "MindIEDisaggregated")
"""Types of backends whose prefill and decode workers are apart."""

_ALONE = "may only be set with spec.autoscalingPolicy"


def _naming(text: str, rejected: str) -> str:
    """An expression for a message that ends with the names of the backends for which a condition holds."""
    return f"'{text} %s'.format([self.backends.filter(b, {rejected}).map(b, b.name)])"


def _roles(backend_type: str, *roles: str) -> Validation:
    """The workers of this type of backend have no other roles."""
    listed = f"{', '.join(roles[:-1])} or {roles[-1]}"
    return rule(
        f"self.type != '{backend_type}' || self.workers.all(w, w.type in {list(roles)})",
        f"must be of type {listed} in a backend of type {backend_type}",
        at=".workers",
        told=f"'must be of type {listed} in a backend of type {backend_type}, but some are %s'"
        f".format([self.workers.filter(w, !(w.type in {list(roles)})).map(w, w.type)])",
    )


OF_BACKENDS: Final[list[Validation]] = [
    rule(
        "self.minReplicas <= self.maxReplicas",
        "must be less than or equal to maxReplicas",
        at=".minReplicas",
        told="'must be less than or equal to maxReplicas, which is %d, but is %d'"
        ".format([self.maxReplicas, self.minReplicas])",
    ),
    rule(
        "!has(self.autoscalingPolicy) || self.minReplicas > 0",
        "must be at least 1 in a backend with a policy of its own; spec.autoscalingPolicy can scale to 0",
        at=".minReplicas",
    ),
    rule(
        "!(self.type in ['vLLM', 'SGLang', 'MindIE'])"
        " || (self.workers.size() == 1 && self.workers[0].type == 'server')",
        "this type of backend has exactly one worker, of type server",
        at=".workers",
        told="'a backend of type %s has exactly one worker, of type server, but this one has %s'"
        ".format([self.type, self.workers.map(w, w.type)])",
    ),
    _roles("vLLMDisaggregated", "prefill", "decode"),
    _roles("MindIEDisaggregated", "prefill", "decode", "controller", "coordinator"),
    *(
        rule(
            f"!(self.type in {list(DISAGGREGATED)}) || self.workers.exists(w, w.type == '{role}')",
            f"a disaggregated backend needs a worker of type {role}",
            at=".workers",
            told=f"'a backend of type %s needs a worker of type {role}: add one'.format([self.type])",
        )
        for role in ("prefill", "decode")
    ),
]

_DOWNLOADS = (
    "self.backends.map(b, b.workers.size() * (1 + (has(b.loraAdapters) ? b.loraAdapters.size() : 0))).sum()"
)

OF_SPECS: Final[list[Validation]] = [
    rule(
        f"{_DOWNLOADS} <= {MOST_DOWNLOADS}",
        f"workers times their adapters (and the weights) may add up to {MOST_DOWNLOADS} downloads at most",
        at=".backends",
        told=f"'workers times their adapters (and the weights) add up to %d downloads; at most "
        f"{MOST_DOWNLOADS} are allowed'.format([{_DOWNLOADS}])",
    ),
    rule(
        f"self.backends.map(b, b.maxReplicas).sum() <= {LARGEST_SUM}",
        f"the maxReplicas of all backends may add up to {LARGEST_SUM} at most",
        at=".backends",
        told=f"'the maxReplicas of all backends add up to %d; at most {LARGEST_SUM} are allowed'"
        ".format([self.backends.map(b, b.maxReplicas).sum()])",
    ),
    rule(
        "!has(self.autoscalingPolicy) || !self.backends.exists(b, has(b.autoscalingPolicy))",
        "autoscalingPolicy of a backend may not be set together with spec.autoscalingPolicy",
        at=".backends",
        reason="FieldValueForbidden",
        told=_naming(
            "autoscalingPolicy may not be set together with spec.autoscalingPolicy, but is in",
            "has(b.autoscalingPolicy)",
        ),
    ),
    rule(
        "!has(self.autoscalingPolicy) || self.backends.all(b, has(b.scalingCost) && b.scalingCost > 0)",
        "scalingCost of each backend must be greater than 0 with spec.autoscalingPolicy",
        at=".backends",
        reason="FieldValueRequired",
        told=_naming(
            "scalingCost must be greater than 0 with spec.autoscalingPolicy; set it in",
            "!has(b.scalingCost) || b.scalingCost == 0",
        ),
    ),
    rule(
        "!has(self.autoscalingPolicy) || self.backends.exists(b, b.minReplicas > 0)",
        "with spec.autoscalingPolicy the minReplicas of all backends must add up to 1 at least",
        at=".backends",
    ),
    rule(
        "has(self.autoscalingPolicy) || !has(self.costExpansionRatePercent)",
        f"{_ALONE}: remove it, or add the policy",
        at=".costExpansionRatePercent",
        reason="FieldValueForbidden",
    ),
    rule(
        "has(self.autoscalingPolicy) || !self.backends.exists(b, has(b.scalingCost) && b.scalingCost > 0)",
        f"scalingCost of a backend {_ALONE}",
        at=".backends",
        reason="FieldValueForbidden",
        told=_naming(f"scalingCost {_ALONE}; remove it from", "has(b.scalingCost) && b.scalingCost > 0"),
    ),
    rule(
        "has(self.autoscalingPolicy) || !self.backends.exists(b, has(b.scaleToZeroGracePeriod))",
        f"scaleToZeroGracePeriod of a backend {_ALONE}",
        at=".backends",
        reason="FieldValueForbidden",
        told=_naming(f"scaleToZeroGracePeriod {_ALONE}; remove it from", "has(b.scaleToZeroGracePeriod)"),
    ),
    rule(
        "has(self.autoscalingPolicy) || self.backends.exists(b, has(b.autoscalingPolicy))"
        " || self.backends.all(b, b.minReplicas >= b.maxReplicas)",
        "without any autoscalingPolicy, minReplicas of each backend must equal maxReplicas",
        at=".backends",
        told=_naming(
            "without any autoscalingPolicy, minReplicas must equal maxReplicas; add one or set one number in",
            "b.minReplicas < b.maxReplicas",
        ),
    ),
]

_MODEL_NAME = "(has(self.spec.name) ? self.spec.name : self.metadata.name)"
_NAMED_LIKE_IT = f"has(b.loraAdapters) && {_MODEL_NAME} in b.loraAdapters.map(a, a.name)"

OF_MODELS: Final[list[Validation]] = [
    rule(
        f"!self.spec.backends.exists(b, {_NAMED_LIKE_IT})",
        "the name of a LoRA adapter must not be the name of the model",
        at=".spec.backends",
        told="'the name of a LoRA adapter must not be the name of the model, %s; rename the adapter in %s'"
        f".format([{_MODEL_NAME}, self.spec.backends.filter(b, {_NAMED_LIKE_IT}).map(b, b.name)])",
    )
]
