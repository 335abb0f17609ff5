"""Events for the turns of a Model that a person wants to know."""

from __future__ import annotations

from headgate import api, cluster
from headgate.api.kthena_registry import ModelStatus
from headgate.controllers import conditions
from headgate.controllers.model import status

COMPONENT = "headgate-controller"

# Reasons of conditions that are not true, but nothing to worry about.
_USUAL = frozenset({status.PROCESSING, "Downloading", "AdaptersLoading", "ModelHealthy"})


def tell_turns(events: cluster.EventRecorder, model: api.Model, due: ModelStatus) -> None:
    """Record an Event for each condition of the new status that turned."""
    before = api.ObservedStatus(conditions=model.status.conditions if model.status is not None else [])
    after = api.ObservedStatus(conditions=due.conditions)
    for condition in conditions.news(before, after):
        if condition.type == status.FAILED:
            is_good = condition.status == "False"
        else:
            is_good = condition.status == "True" or condition.reason in _USUAL
        kind = cluster.EventType.NORMAL if is_good else cluster.EventType.WARNING
        events.record(model, kind, condition.reason, f"{condition.type}: {condition.message}")
