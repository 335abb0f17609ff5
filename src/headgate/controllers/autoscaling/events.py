"""Events for the turns of a binding that a person wants to know."""

from __future__ import annotations

from headgate import api, cluster
from headgate.api.kthena_registry import AutoscalingPolicyBindingStatus
from headgate.controllers import conditions
from headgate.controllers.autoscaling import status


def tell_turns(
    events: cluster.EventRecorder,
    binding: api.AutoscalingPolicyBinding,
    due: AutoscalingPolicyBindingStatus,
) -> None:
    """Record an Event for each condition of the new status that turned, for a bound that is reached, and for
    panic that begins or ends."""
    was = binding.status or AutoscalingPolicyBindingStatus()
    before = {each.type: each for each in was.conditions}
    turned = conditions.news(
        api.ObservedStatus(conditions=was.conditions), api.ObservedStatus(conditions=due.conditions)
    )
    for condition in turned:
        old = before.get(condition.type)
        reasons = {condition.reason, old.reason if old is not None else ""}
        # The condition about metrics says it already.
        if condition.type == status.READY and status.NO_METRICS in reasons:
            continue
        if condition.type != status.SCALING_LIMITED:
            is_well = condition.status == "True" and condition.reason != status.START_FAILED
            kind = cluster.EventType.NORMAL if is_well else cluster.EventType.WARNING
            events.record(binding, kind, condition.reason, f"{condition.type}: {condition.message}")
    for limit in (each for each in due.conditions if each.type == status.SCALING_LIMITED):
        old = before.get(limit.type)
        is_new = old is None or (old.status, old.reason) != (limit.status, limit.reason)
        if limit.status == "True" and is_new:
            is_full = limit.reason == "Maximum"
            kind = cluster.EventType.WARNING if is_full else cluster.EventType.NORMAL
            events.record(binding, kind, f"At{limit.reason}", limit.message)
    if due.mode != was.mode and status.PANIC in (due.mode, was.mode):
        began = due.mode == status.PANIC
        kind = cluster.EventType.WARNING if began else cluster.EventType.NORMAL
        events.record(binding, kind, "PanicBegan" if began else "PanicEnded", due.message)
