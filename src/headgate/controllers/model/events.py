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
    known = {condition.type for condition in before.conditions}
    turned = conditions.news(before, after)
    turned += [each for each in due.conditions if _is_first_failure(each, known)]
    for condition in turned:
        kind = cluster.EventType.NORMAL if _is_good(condition) else cluster.EventType.WARNING
        events.record(model, kind, condition.reason, f"{condition.type}: {condition.message}")


def _is_first_failure(condition: api.Condition, known: set[str]) -> bool:
    """The first time that other conditions are true is no news."""
    return condition.type == status.FAILED and condition.status == "True" and condition.type not in known


def _is_good(condition: api.Condition) -> bool:
    if condition.type == status.FAILED:
        return condition.status == "False"
    return condition.status == "True" or condition.reason in _USUAL
