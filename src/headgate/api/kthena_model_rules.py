"""Rules across the fields of a Model, in CEL: bounds, workers by type, and who decides the replicas."""

from __future__ import annotations

from typing import Final

from headgate.api.expressions import Validation, rule

__all__ = ["LARGEST_SUM", "OF_BACKENDS", "OF_MODELS", "OF_SPECS"]

LARGEST_SUM: Final = 1_000_000
"""Replicas of all backends together."""

_ALONE = "may only be set with spec.autoscalingPolicy"


def _naming(text: str, rejected: str) -> str:
    """An expression for a message that ends with the names of the backends for which a condition holds."""
    return f"'{text} %s'.format([self.backends.filter(b, {rejected}).map(b, b.name)])"


OF_BACKENDS: Final[list[Validation]] = [
    rule(
        "self.minReplicas <= self.maxReplicas",
        "must be less than or equal to maxReplicas",
        at=".minReplicas",
        told="'must be less than or equal to maxReplicas, which is %d'.format([self.maxReplicas])",
    ),
    rule(
        "!has(self.autoscalingPolicy) || self.minReplicas > 0",
        "must be at least 1 in a backend with a policy of its own",
        at=".minReplicas",
    ),
    rule(
        "!(self.type in ['vLLM', 'SGLang', 'MindIE'])"
        " || (self.workers.size() == 1 && self.workers[0].type == 'server')",
        "this type of backend has exactly one worker, of type server",
        at=".workers",
        told="'a backend of type ' + self.type + ' has exactly one worker, of type server'",
    ),
    rule(
        "self.type != 'vLLMDisaggregated' || self.workers.all(w, w.type in ['prefill', 'decode'])",
        "must be of type prefill or decode in a backend of type vLLMDisaggregated",
        at=".workers",
    ),
    rule(
        "self.type != 'MindIEDisaggregated' || self.workers.all(w, w.type != 'server')",
        "must be of type prefill, decode, controller or coordinator in a backend of type MindIEDisaggregated",
        at=".workers",
    ),
]

OF_SPECS: Final[list[Validation]] = [
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
        _ALONE,
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
            "without any autoscalingPolicy, minReplicas must equal maxReplicas, but not in",
            "b.minReplicas < b.maxReplicas",
        ),
    ),
]

OF_MODELS: Final[list[Validation]] = [
    rule(
        "self.spec.backends.all(b, !has(b.loraAdapters) || !((has(self.spec.name) ? self.spec.name"
        " : self.metadata.name) in b.loraAdapters.map(a, a.name)))",
        "the name of a LoRA adapter must not be the name of the model",
        at=".spec.backends",
    )
]
