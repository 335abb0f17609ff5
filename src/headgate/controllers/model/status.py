"""The status of a Model, from its objects and Pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from headgate import api
from headgate.api.kthena_registry import ModelAdapterStatus, ModelBackend, ModelBackendStatus, ModelStatus
from headgate.controllers import conditions
from headgate.controllers.conditions import Finding
from headgate.controllers.model import adapter_entries, names, troubles
from headgate.controllers.model.children import Child, Children
from headgate.controllers.model.observed import WORKLOADS, Id, Known, KnownWorkload
from headgate.controllers.model.troubles import Trouble

INITIALIZED, ACTIVE, FAILED = "Initialized", "Active", "Failed"
SUPPORTED, ADAPTERS_LOADED = "Supported", "AdaptersLoaded"
_FORMER = "Ready"
"""Written by versions that did not act on Models."""
TYPES: Final = (INITIALIZED, ACTIVE, FAILED, SUPPORTED, ADAPTERS_LOADED, _FORMER)
_UNPROCESSED = "; generation "
"""What follows in the message of Active is about a generation that could not be processed."""
AVAILABLE, PROCESSING = "ModelAvailable", "ModelProcessing"


class BackendState(NamedTuple):
    """How a backend stands."""

    name: str
    wanted: int
    replicas: int
    ready: int
    """Replicas of which all workers are ready."""
    trouble: Trouble | None = None
    """Why a Pod of it does not serve."""
    adapters: Sequence[ModelAdapterStatus] = ()

    @property
    def serves(self) -> bool:
        """Whether it has what it takes to serve: a ready replica, or none are wanted."""
        return self.ready > 0 or self.wanted == 0


def workloads_of(backend: ModelBackend, children: Sequence[Child]) -> list[Child]:
    """The workloads of a backend in the order of its workers."""
    label = names.shortened(backend.name, names.LONGEST_LABEL)
    return [
        child
        for child in children
        if child.kind.resource.plural in WORKLOADS
        and child.manifest["metadata"]["labels"].get(names.BACKEND_NAME) == label
    ]


def state_of(backend: ModelBackend, children: Sequence[Child], objects: Mapping[Id, Known]) -> BackendState:
    """The replicas of a backend, counted in replicas of all its workers."""
    wanted, replicas, ready = [], [], []
    for worker, child in zip(backend.workers, workloads_of(backend, children), strict=False):
        each = 1 if worker.replicas is None else worker.replicas
        if each == 0:
            continue
        found = objects.get(child.id)
        known = found if isinstance(found, KnownWorkload) else None
        due = child.manifest["spec"].get("replicas", known.spec.replicas if known else 0)
        wanted.append(due // each)
        replicas.append(known.status.replicas // each if known else 0)
        ready.append(known.status.ready_replicas // each if known else 0)
    counts = (max(wanted, default=0), min(replicas, default=0), min(ready, default=0))
    return BackendState(backend.name, *counts)


def status_of(
    model: api.Model, children: Children, states: Sequence[BackendState], going: Sequence[str], now: str
) -> ModelStatus:
    """The status of a Model whose generation was processed; `now` is RFC 3339. `going` tells of what is there
    from before."""
    adapters = adapter_entries.bounded([state.adapters for state in states])
    findings = [
        Finding(INITIALIZED, True, "ModelCreating", "Model initialized"),
        _active(states, going),
        *_supported(children),
        *_adapters_loaded(states, adapters.left_out),
    ]
    if _had(model, FAILED):
        findings.append(Finding(FAILED, False, "ModelHealthy", "The last attempt succeeded"))
    backends = [
        ModelBackendStatus(
            name=state.name,
            replicas=state.replicas,
            ready_replicas=state.ready,
            adapters=entries,
        )
        for state, entries in zip(states, adapters.entries, strict=True)
    ]
    return _status(model, findings, backends, model.metadata.generation, now)


def failed(model: api.Model, error: str, now: str) -> ModelStatus:
    """The status of a Model whose generation could not be processed. What runs may still serve, and so the
    other conditions stay; the message of Active, which kubectl shows, says so."""
    before = model.status or ModelStatus()
    findings = [Finding(INITIALIZED, True, "ModelCreating", "Model initialized")]
    if all(each.type != ACTIVE for each in before.conditions):
        findings.append(Finding(ACTIVE, False, PROCESSING, "Model not ready yet"))
    findings.append(Finding(FAILED, True, "ModelAbnormal", error))
    kept = [each.type for each in before.conditions if each.type in (ACTIVE, SUPPORTED, ADAPTERS_LOADED)]
    due = _status(model, findings, before.backend_statuses, before.observed_generation, now, kept)
    said = f"{_UNPROCESSED}{model.metadata.generation} could not be processed: {error}"
    return msgspec.structs.replace(due, conditions=[_with(each, said) for each in due.conditions])


def _with(condition: api.Condition, said: str) -> api.Condition:
    """Active as it was, also its generation, with `said` in place of what was said the last time."""
    if condition.type != ACTIVE:
        return condition
    message = condition.message.partition(_UNPROCESSED)[0] + said
    return msgspec.structs.replace(condition, message=message[: conditions.MAX_MESSAGE])


def waiting(model: api.Model, what: str, now: str) -> ModelStatus:
    """The status of a Model that waits until an object of a former one of its name is gone."""
    before = model.status or ModelStatus()
    findings = [Finding(INITIALIZED, True, "ModelCreating", "Model initialized")]
    active = next((each for each in before.conditions if each.type == ACTIVE), None)
    if active is None or active.status != "True":
        told = f"Model not ready yet: {what} of a former Model of this name is still being deleted"
        findings.append(Finding(ACTIVE, False, PROCESSING, told))
    return _status(model, findings, before.backend_statuses, before.observed_generation, now, TYPES)


def _status(
    model: api.Model,
    findings: Sequence[Finding],
    backends: list[ModelBackendStatus],
    processed: int | None,
    now: str,
    kept: Sequence[str] = (),
) -> ModelStatus:
    before = model.status.conditions if model.status is not None else []
    found = {finding.type for finding in findings}
    gone = {*TYPES} - found - {*kept}
    previous = api.ObservedStatus(conditions=[each for each in before if each.type not in gone])
    due = conditions.observed(previous, findings, model.metadata.generation, now)
    return ModelStatus(conditions=due.conditions, backend_statuses=backends, observed_generation=processed)


def written(status: ModelStatus) -> dict[str, object]:
    """The same as a plain object for an API server, which requires messages, even if empty."""
    plain: dict[str, object] = {"backendStatuses": [], **msgspec.to_builtins(status)}
    plain["conditions"] = [{"message": ""} | msgspec.to_builtins(each) for each in status.conditions]
    return plain


def _had(model: api.Model, kind: str) -> bool:
    return model.status is not None and any(each.type == kind for each in model.status.conditions)


def _active(states: Sequence[BackendState], going: Sequence[str]) -> Finding:
    details = [text for state in states if (text := _detail(state))]
    said = conditions.enumerated([*details, *going], "; ")
    if all(state.serves for state in states):
        base = "Model is ready" if any(state.ready for state in states) else "Model is scaled to zero"
        return Finding(ACTIVE, True, AVAILABLE, f"{base}; {said}" if said else base)
    waiting = [state.trouble for state in states if not state.serves and state.trouble is not None]
    trouble = troubles.worst(waiting)
    reason = trouble.reason if trouble is not None else PROCESSING
    return Finding(ACTIVE, False, reason, f"Model not ready yet: {said}" if said else "Model not ready yet")


def _detail(state: BackendState) -> str:
    """What is not as wanted with a backend; empty if everything is."""
    if state.ready >= state.wanted and state.trouble is None:
        return ""
    count = f"backend {state.name}: {state.ready} of {state.wanted} replicas ready"
    return f"{count}: {state.trouble.message}" if state.trouble is not None else count


def _supported(children: Children) -> list[Finding]:
    if not children.problems:
        return []
    told = [f"{problem.field}: {problem.message}" for problem in children.problems]
    return [Finding(SUPPORTED, False, "NotSupported", conditions.enumerated(told, "; "))]


def _adapters_loaded(states: Sequence[BackendState], left_out: int) -> list[Finding]:
    """Whether every ready Pod has every adapter of its backend; `left_out` are not in the status."""
    adapters = [(state, adapter) for state in states for adapter in state.adapters]
    if not adapters:
        return []
    failing = [
        f"backend {state.name}, adapter {adapter.name}: {adapter.error or adapter.state}"
        for state, adapter in adapters
        if adapter.state != "Loaded"
    ]
    more = f"; backendStatuses has no room for {left_out} of the adapters" if left_out else ""
    if not failing:
        return [Finding(ADAPTERS_LOADED, True, "AdaptersLoaded", f"All adapters are loaded{more}")]
    is_failure = any(adapter.state == "Failed" for _, adapter in adapters)
    reason = "AdapterFailed" if is_failure else "AdaptersLoading"
    return [Finding(ADAPTERS_LOADED, False, reason, conditions.enumerated(failing, "; ") + more)]
