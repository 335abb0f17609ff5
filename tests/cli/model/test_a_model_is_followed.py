"""What `headgate serve` shows of a Model on its way, from the objects as a server has them."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.model import following
from headgate.cli.model.following import Stage, stage_of

Object = dict[str, Any]


def model(*conditions: Object, processed: int | None = 2) -> Object:
    return {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": processed, "conditions": list(conditions)},
    }


def condition(kind: str, status: str, reason: str = "R", message: str = "why") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 2}


def pod(download: Object | None = None, engine: Object | None = None, *, ready: bool = False) -> Object:
    return {
        "metadata": {},
        "spec": {"initContainers": [{"name": "runtime", "restartPolicy": "Always"}, {"name": "download"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "initContainerStatuses": [{"name": "download", "state": download or {}}],
            "containerStatuses": [{"name": "engine", "state": engine or {}}],
        },
    }


DONE = {"terminated": {"exitCode": 0}}
READY = pod(DONE, {"running": {}}, ready=True)
WAITS = condition("Active", "False", "ModelProcessing", "Model not ready yet")


@pytest.mark.parametrize(
    ("found", "pods", "stage"),
    [
        ({"metadata": {"generation": 1}}, [], Stage("waiting for the controller", "waiting")),
        (model(WAITS), [], Stage("Model not ready yet", "Model not ready yet")),
        (
            model(condition("Active", "False", "Downloading", "1 of 8 GB")),
            [pod({"running": {}})],
            Stage("1 of 8 GB", "1 of 8 GB"),
        ),
        (model(WAITS), [pod({"running": {}})], Stage("download: downloading", "Model not ready yet")),
        (model(WAITS), [pod(DONE, {"running": {}})], Stage("", "loading")),
        (model(WAITS), [pod({}), pod(DONE, {"running": {}})], Stage("", "loading")),
        (
            model(WAITS),
            [pod(DONE, {"waiting": {"reason": "NoCommand", "message": "no image"}})],
            Stage("", "engine: NoCommand no image", "engine: NoCommand no image"),
        ),
        (model(WAITS), [READY], Stage("", "ready; waiting for the Model to become active")),
        (model(condition("Active", "True")), [READY], Stage()),
        (model(condition("Active", "False", "EngineFailing")), [], Stage("why", "why", "why")),
        (
            model(condition("Failed", "True"), processed=1),
            [],
            Stage("waiting for the controller", "waiting", "why"),
        ),
        (
            model(condition("Active", "True"), condition("Supported", "False", message="no adapters")),
            [],
            Stage(unsupported="no adapters"),
        ),
    ],
)
def test_each_step_says_what_it_waits_for(found: Object, pods: list[Object], stage: Stage) -> None:
    """Empty steps are done."""
    assert stage_of(found, pods) == stage


def test_the_ready_state_of_a_former_generation_does_not_count() -> None:
    """The Model was changed, and the controller has not seen it yet."""
    assert stage_of(model(condition("Active", "True"), processed=1), []).engine == "why"


def workload(replicas: int, updated: int, seen: int | None = 3) -> Object:
    status = {"replicas": replicas, "updatedReplicas": updated}
    known = {} if seen is None else {"observedGeneration": seen}
    return {"metadata": {"name": "m-b", "generation": 3}, "status": status | known}


@pytest.mark.parametrize(
    ("found", "engine"),
    [
        (workload(2, 1), "replacing what runs: 1 of 2 replicas of m-b are new"),
        (workload(1, 1, seen=2), "replacing what runs: 1 of 1 replicas of m-b are new"),
        (workload(2, 0, seen=None), "replacing what runs: 0 of 2 replicas of m-b are new"),
        (workload(2, 2), ""),
        (workload(1, 1, seen=None), ""),
        ({"metadata": {"name": "m-b", "generation": 1}}, ""),
    ],
)
def test_a_changed_model_has_arrived_when_nothing_of_before_runs(found: Object, engine: str) -> None:
    """Until then what answers is what was there before the change."""
    assert stage_of(model(condition("Active", "True")), [READY], [found]) == Stage(engine=engine)


def test_a_change_that_fails_is_a_failure_while_the_model_is_active() -> None:
    """With the last line of what the engine wrote, which is the error below a traceback."""
    crashing = pod(DONE, {"waiting": {"reason": "CrashLoopBackOff"}})
    log = "Traceback (most recent call last):\n  File\nValueError: no such flag\n"
    crashing["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"exitCode": 1, "message": log}}
    found = stage_of(model(condition("Active", "True")), [READY, crashing], [workload(2, 1)])
    assert found.failure == "engine: CrashLoopBackOff: ValueError: no such flag; what ran before still serves"
    assert not stage_of(model(condition("Active", "True")), [READY, crashing], [workload(2, 2)]).failure


@pytest.mark.parametrize("odd", [{}, {"status": 1}, {"status": {"conditions": None}}, {"metadata": []}])
def test_any_object_has_a_stage(odd: Object) -> None:
    """Fields may be missing, or have other types than expected."""
    assert isinstance(stage_of(odd, [odd]), Stage)


def test_a_failure_must_last() -> None:
    """Seen again and again between attempts; one that is over begins anew."""
    now = 0.0
    failures = following._Failures(lambda: now)
    assert not failures.lasts(True)
    now = following.FAILED_FOR_S - 1
    assert not failures.lasts(True)
    now += 10
    assert not failures.lasts(False)
    assert failures.lasts(True)
    now += following.RECOVERED_S + 1
    assert not failures.lasts(True)
