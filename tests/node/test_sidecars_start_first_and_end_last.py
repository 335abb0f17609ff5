"""Sidecars, hooks and deadlines in the life of a Pod, in virtual time."""

import signal

import msgspec

from headgate.node import pod_life, pod_spec
from headgate.node.pod_life import PreStop, Signal, Start, StopReason
from headgate.node.probe_schedule import ProbeKind

PROBE = {"tcpSocket": {"port": 1}}
HOOK = {"exec": {"command": ["true"]}}


def life(policy: str = "Never", deadline: float | None = None, main: dict | None = None) -> pod_life.PodLife:
    spec = {
        "initContainers": [
            {"name": "proxy", "restartPolicy": "Always", "startupProbe": PROBE},
            {"name": "prepare"},
            {"name": "logs", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "main", **(main or {})}],
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 10,
    }
    return pod_life.PodLife(msgspec.convert(spec, pod_spec.PodSpec), 0.0, deadline=deadline)


def started(pod: pod_life.PodLife, main: str = "main") -> pod_life.PodLife:
    """Past all init containers, with everything running."""
    pod.decide(0)
    pod.started("proxy", "id", 0)
    pod.probed("proxy", ProbeKind.STARTUP, True)
    pod.decide(0)
    pod.started("prepare", "id", 0)
    pod.exited("prepare", 0, None, 0)
    pod.decide(0)
    pod.started("logs", "id", 0)
    pod.decide(0)
    pod.started(main, "id", 0)
    return pod


def test_each_waits_for_the_one_before():
    """For the start of a sidecar, with its probe, and for the success of any other."""
    pod = life()
    assert pod.decide(0) == [Start("proxy", 0)]
    pod.started("proxy", "id", 0)
    assert pod.decide(0) == []
    pod.probed("proxy", ProbeKind.STARTUP, True)
    assert pod.decide(0) == [Start("prepare", 0)]
    pod.started("prepare", "id", 0)
    pod.exited("prepare", 0, None, 0)
    assert (pod.decide(0), pod.initialized) == ([Start("logs", 0)], False)
    pod.started("logs", "id", 0)
    assert (pod.decide(0), pod.initialized, pod.phase) == ([Start("main", 0)], True, "Pending")
    pod.started("main", "id", 0)
    assert (pod.ready, pod.phase) == (True, "Running")


def test_a_sidecar_restarts_whatever_the_policy_says():
    """And makes the Pod unready meanwhile, but not uninitialized."""
    pod = started(life("Never"))
    pod.exited("proxy", 0, None, 1)
    assert (pod.ready, pod.initialized, pod.phase) == (False, True, "Running")
    assert pod.decide(1.2) == [Start("proxy", 1)]


def test_a_pod_ends_when_its_main_containers_have_ended():
    """Then the sidecars are stopped, the last one first; the Pod has succeeded when they are gone."""
    pod = started(life("OnFailure"))
    pod.exited("main", 0, None, 1)
    assert pod.phase == "Running"
    assert pod.decide(1) == [Signal("logs", signal.SIGTERM)]
    pod.exited("logs", 143, 15, 2)
    assert pod.decide(2) == [Signal("proxy", signal.SIGTERM)]
    pod.exited("proxy", 143, 15, 3)
    assert (pod.decide(3), pod.phase, pod.stopping) == ([], "Succeeded", None)


def test_a_deleted_pod_shares_its_grace_period():
    """Sidecars get what the main containers have left of it, or two seconds."""
    pod = started(life())
    pod.stop(StopReason.DELETED, 10)
    assert pod.decide(0) == [Signal("main", signal.SIGTERM)]
    assert pod.wake_at() == 10
    pod.exited("main", 0, None, 4)
    assert pod.decide(4) == [Signal("logs", signal.SIGTERM)]
    assert pod.wake_at() == 10
    assert pod.decide(10) == [Signal("logs", signal.SIGKILL)]
    pod.exited("logs", 137, 9, 10)
    assert pod.decide(10) == [Signal("proxy", signal.SIGTERM)]
    assert pod.wake_at() == 12


def test_a_hook_comes_before_the_signal():
    """SIGTERM follows the preStop hook; SIGKILL comes at the end of the grace period, hook or not."""
    pod = started(life(main={"lifecycle": {"preStop": HOOK}}))
    pod.stop(StopReason.DELETED, 10)
    assert pod.decide(0) == [PreStop("main", 10)]
    assert pod.decide(3) == []
    pod.pre_stop_ended("main")
    assert pod.decide(3) == [Signal("main", signal.SIGTERM)]
    assert pod.decide(10) == [Signal("main", signal.SIGKILL)]
    pod.pre_stop_ended("main")
    assert pod.decide(11) == []


def test_a_container_has_started_after_its_hook():
    """Until then it is not ready; if the hook fails, it is ended and starts again."""
    pod = started(life("OnFailure", main={"lifecycle": {"postStart": HOOK}}))
    assert not pod.ready
    pod.post_start_ended("main", "")
    assert pod.ready
    pod.post_start_ended("main", "exit code 1")
    assert (pod.ready, pod.decide(0)) == (False, [Signal("main", signal.SIGTERM)])
    pod.exited("main", 0, 15, 1)
    assert pod.decide(1.2) == [Start("main", 1)]


def test_a_deadline_ends_the_pod():
    """Whatever runs is stopped, nothing starts again, and the Pod has failed."""
    pod = started(life("Always", deadline=60.0))
    assert pod.wake_at() == 60
    assert pod.decide(60) == [Signal("main", signal.SIGTERM)]
    pod.exited("main", 0, None, 61)
    assert pod.decide(61) == [Signal("logs", signal.SIGTERM)]
    pod.exited("logs", 0, None, 62)
    assert pod.decide(62) == [Signal("proxy", signal.SIGTERM)]
    pod.exited("proxy", 0, None, 63)
    assert (pod.decide(63), pod.phase, pod.exceeded, pod.wake_at()) == ([], "Failed", True, None)
    assert pod.stopping is None, "it stays until it is deleted"
    pod.stop(StopReason.NODE_SHUTDOWN, 1)
    assert (pod.stopping, pod.phase) == (StopReason.NODE_SHUTDOWN, "Failed")


def test_what_the_node_stops_has_its_reason():
    """An exit code of 143 is not the failure of a container then."""
    pod = started(life("Always"))
    pod.stop(StopReason.NODE_SHUTDOWN, 1)
    pod.decide(1)
    pod.exited("main", 143, signal.SIGTERM, 2)
    [main] = pod.containers
    assert (main.last.reason, main.waiting_reason) == ("NodeShutdown", "NodeShutdown")


def test_a_container_can_have_a_policy_of_its_own():
    """It counts instead of the Pod's, for main and init containers."""
    pod = started(life("Always", main={"restartPolicy": "Never"}))
    pod.exited("main", 1, None, 1)
    assert pod.decide(1) == [Signal("logs", signal.SIGTERM)]
