"""InferenceModelRewrite: warnings."""

from __future__ import annotations

from headgate.api.admission import pools
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check"]


def check(rewrite: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an InferenceModelRewrite."""
    pools.check_pool_reference(rewrite, others, found)
    named: dict[str, FieldCursor] = {}
    for_others: FieldCursor | None = None
    for rule in rewrite.at("spec.rules").items():
        _check_targets(rule, found)
        if not isinstance(rule["targets"].value, list):
            continue
        matches = [match["model"]["value"] for match in rule["matches"].items()]
        for match in matches:
            first = named.setdefault(match.text, match) if match.text else match
            if first is not match:
                found.warn(match, f'"{match.text}" is matched by {first} already, which counts')
        if not matches and for_others is not None:
            found.warn(rule, f"has no effect: {for_others} has no matches either, and counts")
        elif not matches:
            for_others = rule


def _check_targets(rule: FieldCursor, found: Findings) -> None:
    targets = rule["targets"]
    if targets.value is None:
        found.warn(rule, "has no targets and no effect: name the new model in targets[0].modelRewrite")
    weights = [target["weight"].integer for target in targets.items()]
    for target in targets.items():
        if target["modelRewrite"].text == "":
            found.warn(target["modelRewrite"], "is empty: set the name that the model servers know")
        if target["weight"].integer is None and any(weight is not None for weight in weights):
            found.warn(
                target, "gets no requests: it has no weight, and others have. Set all weights, or none"
            )
