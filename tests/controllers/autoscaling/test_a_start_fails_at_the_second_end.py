"""A container that ended once is started again, and requests wait for it; at the second end, that is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate import api
from headgate.controllers.autoscaling.observing import Found
from headgate.controllers.autoscaling.starts import Failures

KILLED = {"exitCode": 137, "reason": "Error"}
RUNNING: dict[str, Any] = {"running": {}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}
CREATING = {"waiting": {"reason": "ContainerCreating"}}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


def pod(
    state: dict[str, Any], restarts: int = 0, *, ready: bool = False, last: dict[str, Any] | None = None
) -> api.Pod:
    container = {
        "name": "engine",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }
    done = {"name": "init", "state": {"terminated": {"exitCode": 0}}}
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [container],
        "initContainerStatuses": [done],
    }
    return msgspec.convert({"metadata": {"name": "p", "uid": "u"}, "status": status}, api.Pod)


@pytest.fixture
def told():
    """What is told of one Pod after another."""
    failures = Failures()

    def tell(seen: api.Pod, *, from_start: bool = False) -> str:
        ready = frozenset(["u"]) if seen.ready else frozenset()
        return failures.told([Found(None, [seen], 1, ready)], ["p"] if from_start else [])

    return tell


def test_an_engine_that_is_killed_once_is_waited_for(told):
    """However often that happens, if it is ready in between."""
    for restarts in range(5):
        assert told(pod(RUNNING, restarts, ready=True)) == ""
        assert told(pod({"terminated": KILLED}, restarts)) == ""
        assert told(pod(BACK_OFF, restarts, last=KILLED)) == ""
        assert told(pod(CREATING, restarts + 1, last=KILLED)) == ""
        assert told(pod(RUNNING, restarts + 1, last=KILLED)) == ""


def test_the_second_end_in_turn_is_told(told):
    assert told(pod(RUNNING, 3, ready=True, last=KILLED)) == ""
    assert told(pod(RUNNING, 4, last=KILLED)) == ""
    assert "exit code 137" in told(pod({"terminated": KILLED}, 4, last=KILLED))
    assert "exit code 137" in told(pod(BACK_OFF, 4, last=KILLED))
    assert told(pod(RUNNING, 5, ready=True, last=KILLED)) == ""


def test_a_first_start_may_end_once(told):
    assert told(pod(RUNNING), from_start=True) == ""
    assert told(pod({"terminated": KILLED}), from_start=True) == ""
    assert "exit code 137" in told(pod(BACK_OFF, 1, last=KILLED), from_start=True)


def test_after_a_restart_of_the_controller_a_failing_start_is_known(told):
    """From the history, which has the Pods that were never ready."""
    assert "exit code 137" in told(pod(BACK_OFF, 7, last=KILLED), from_start=True)


def test_after_a_restart_of_the_controller_a_killed_engine_is_waited_for(told):
    assert told(pod(BACK_OFF, 7, last=KILLED)) == ""
    assert told(pod(RUNNING, 8, last=KILLED)) == ""
    assert "exit code 137" in told(pod(BACK_OFF, 9, last=KILLED))


def test_an_image_that_cannot_be_pulled_is_told_at_once(told):
    assert "no such image" in told(pod(NO_IMAGE), from_start=True)
