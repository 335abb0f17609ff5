"""Deployment, ReplicaSet and StatefulSet: Kubernetes' rules beyond types."""

from __future__ import annotations

import re

from headgate.api.admission import metadata, pods, selectors
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check_deployment", "check_replica_set", "check_stateful_set"]

_POD_MANAGEMENT = ("OrderedReady", "Parallel")
_CHANGEABLE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
_STATEFUL_RULE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)


def check_deployment(deployment: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a Deployment."""
    spec = deployment["spec"]
    _warn_of_name(deployment, old, found)
    _check_set(spec, old, found)
    pods.at_least(spec["revisionHistoryLimit"], 0, found)
    _check_strategy(spec["strategy"], found)
    deadline, ready = spec["progressDeadlineSeconds"], spec["minReadySeconds"].integer or 0
    pods.at_least(deadline, 0, found)
    if deadline.integer is not None and 0 <= deadline.integer <= ready:
        found.invalid(deadline, "must be greater than minReadySeconds")


def check_replica_set(
    replica_set: FieldCursor, old: FieldCursor | None, others: View, found: Findings
) -> None:
    """All rules for a ReplicaSet."""
    _warn_of_name(replica_set, old, found)
    _check_set(replica_set["spec"], old, found)


def check_stateful_set(
    stateful_set: FieldCursor, old: FieldCursor | None, others: View, found: Findings
) -> None:
    """All rules for a StatefulSet, most of whose spec is immutable."""
    spec = stateful_set["spec"]
    _warn_of_name(stateful_set, old, found)
    _check_set(spec, None, found, called="statefulset")
    policy = spec["podManagementPolicy"]
    if policy.text is not None and policy.text not in _POD_MANAGEMENT:
        found.invalid(policy, f"must be '{_POD_MANAGEMENT[0]}' or '{_POD_MANAGEMENT[1]}'")
    if old is not None:
        before = old["spec"].mapping
        fields = (spec.mapping.keys() | before.keys()) - _CHANGEABLE
        if any(spec.mapping.get(field) != before.get(field) for field in fields):
            found.forbidden(spec, _STATEFUL_RULE)


def _warn_of_name(workload: FieldCursor, old: FieldCursor | None, found: Findings) -> None:
    if old is None:
        pods.warn_of_name(workload, "Pod names and hostnames", found)


def _check_set(
    spec: FieldCursor, old: FieldCursor | None, found: Findings, *, called: str = "deployment"
) -> None:
    """The common rules: a replica count, a selector, and a template that the selector selects.

    Kubernetes' message calls a ReplicaSet with an empty selector a deployment, too.
    """
    pods.at_least(spec["replicas"], 0, found)
    pods.at_least(spec["minReadySeconds"], 0, found)
    selector, template = spec["selector"], spec["template"]
    before = len(found.errors)
    if isinstance(selector.value, dict):
        selectors.check(selector, found)
        if not selector["matchLabels"].value and not selector["matchExpressions"].value:
            found.invalid(selector, f"empty selector is invalid for {called}")
    is_sound = isinstance(selector.value, dict) and len(found.errors) == before
    if old is not None and old.at("spec.selector").value != selector.value:
        found.invalid(selector, "field is immutable")
    if template.present:
        _check_template(template, selector if is_sound else None, found)
    else:
        found.required(template)


def _check_template(template: FieldCursor, selector: FieldCursor | None, found: Findings) -> None:
    labels = template.at("metadata.labels")
    metadata.check_labels(labels, found)
    if selector is not None and not selectors.matches(selector, labels.texts):
        found.invalid(labels, "`selector` does not match template `labels`", labels.mapping)
    pods.check_spec(template["spec"], found)
    policy = template.at("spec.restartPolicy")
    if policy.text in ("OnFailure", "Never"):
        found.unsupported(policy, ["Always"])
    deadline = template.at("spec.activeDeadlineSeconds")
    if deadline.present:
        found.forbidden(deadline, "activeDeadlineSeconds in ReplicaSet is not Supported")


def _check_strategy(strategy: FieldCursor, found: Findings) -> None:
    rolling = strategy["rollingUpdate"]
    if strategy["type"].text == "Recreate":
        if rolling.present:
            found.forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")
        return
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    for limit in (unavailable, surge):
        _check_share(limit, found)
    if _is_zero(unavailable) and _is_zero(surge):
        found.invalid(unavailable, "may not be 0 when `maxSurge` is 0")
    if _percent(unavailable) > 100:
        found.invalid(unavailable, "must not be greater than 100%")


def _check_share(limit: FieldCursor, found: Findings) -> None:
    """A number of Pods, or a percentage of them."""
    if limit.text is not None and not _PERCENT.fullmatch(limit.text):
        found.invalid(limit, _PERCENT_RULE)
    pods.at_least(limit, 0, found)


def _percent(limit: FieldCursor) -> int:
    text = limit.text
    return int(text[:-1][:18]) if text is not None and _PERCENT.fullmatch(text) else 0


def _is_zero(limit: FieldCursor) -> bool:
    text = limit.text
    return limit.integer == 0 or (
        text is not None and bool(_PERCENT.fullmatch(text)) and not text.strip("0%")
    )
