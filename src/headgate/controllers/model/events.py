"""Events for the turns of a Model that a person wants to know."""

from __future__ import annotations

from collections.abc import Sequence

from headgate import api, cluster
from headgate.api.kthena_registry import ModelStatus
from headgate.controllers import conditions
from headgate.controllers.model import status, troubles
from headgate.controllers.model.status import BackendState

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


class FailuresBesides:
    """Events for Pods that fail while others of their backend serve, as in a rollout: Active stays true.

    Each cause is told once, until it is over or the Model changes.
    """

    def __init__(self, events: cluster.EventRecorder) -> None:
        self._events = events
        self._told: dict[str, set[tuple[str, int, str]]] = {}
        """Backend, generation and reason, by the UID of the Model."""

    def tell(self, model: api.Model, states: Sequence[BackendState]) -> None:
        uid, generation = model.metadata.uid, model.metadata.generation
        before, now = self._told.pop(uid, set()), set[tuple[str, int, str]]()
        for state in states:
            trouble = state.trouble
            if state.ready == 0 or trouble is None or trouble.reason == troubles.DOWNLOADING:
                continue
            cause = (state.name, generation, trouble.reason)
            now.add(cause)
            if cause not in before:
                told = (
                    f"backend {state.name}: {trouble.message}; {state.ready} of {state.wanted} replicas serve"
                )
                self._events.record(model, cluster.EventType.WARNING, trouble.reason, told)
        if now:
            self._told[uid] = now

    def forget(self, uid: str) -> None:
        """The Model with this UID is gone."""
        self._told.pop(uid, None)
