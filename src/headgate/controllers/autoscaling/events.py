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
    """Record an Event for each condition of the new status that turned, and for panic that begins or ends."""
    was = binding.status or AutoscalingPolicyBindingStatus()
    before = api.ObservedStatus(conditions=was.conditions)
    known = {each.type for each in was.conditions}
    for condition in conditions.news(before, api.ObservedStatus(conditions=due.conditions)):
        if condition.type == status.SCALING_LIMITED:
            continue
        good = condition.status == "True"
        kind = cluster.EventType.NORMAL if good else cluster.EventType.WARNING
        events.record(binding, kind, condition.reason, f"{condition.type}: {condition.message}")
    limits = [each for each in due.conditions if each.type == status.SCALING_LIMITED]
    for limit in limits:
        old = next((each for each in was.conditions if each.type == limit.type), None)
        if limit.status == "True" and (old is None or (old.status, old.reason) != ("True", limit.reason)):
            is_full = limit.reason == "Maximum"
            kind = cluster.EventType.WARNING if is_full else cluster.EventType.NORMAL
            events.record(binding, kind, f"At{limit.reason}", limit.message)
    if due.mode == status.PANIC and was.mode != status.PANIC:
        events.record(binding, cluster.EventType.WARNING, "PanicBegan", due.message)
    if was.mode == status.PANIC and due.mode == status.STABLE and known:
        events.record(binding, cluster.EventType.NORMAL, "PanicEnded", due.message)
