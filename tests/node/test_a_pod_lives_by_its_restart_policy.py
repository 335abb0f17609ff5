"""The life of a Pod, in virtual time."""

import signal
from itertools import pairwise

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate.node import pod_life, pod_spec
from headgate.node.pod_life import PreStop, Signal, Start, StopReason
from headgate.node.probe_schedule import ProbeKind


def life(policy: str = "Always", *, probe: bool = False, **spec) -> pod_life.PodLife:
    container = {"name": "main"} | ({"readinessProbe": {"tcpSocket": {"port": 1}}} if probe else {})
    return pod_life.PodLife(
        msgspec.convert({"containers": [container], "restartPolicy": policy, **spec}, pod_spec.PodSpec), 0.0
    )


def test_restarts_come_later_and_later_and_are_forgiven():
    """Each failure doubles the wait up to 30 s; a minute of running makes the next one a first one."""
    pod, now, waits = life(), 0.0, []
    for _ in range(10):
        assert pod.decide(now) != []
        pod.started("main", "id", now)
        pod.exited("main", 1, None, now)
        wake = pod.wake_at()
        waits.append(round(wake - now, 3))
        assert pod.decide(wake - 0.001) == []
        now = wake
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert pod.decide(now) == [Start("main", 10)]
    pod.started("main", "id", now)
    pod.exited("main", 1, None, now + 60)
    assert round(pod.wake_at() - (now + 60), 3) == 0.2


def test_policies_decide_what_an_exit_means():
    """Never and, after success, OnFailure let the container rest; Always starts it again."""
    for policy, code, phase in [
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, "Running"),
        ("Always", 0, "Running"),
    ]:
        pod = life(policy)
        pod.decide(0)
        pod.started("main", "id", 0)
        pod.exited("main", code, None, 1)
        assert pod.phase == phase, (policy, code)
        assert (pod.wake_at() is None) == (phase != "Running")


def test_readiness_follows_the_probe_and_ends_with_the_process():
    """A container is ready when its probe says so, and no longer from the moment its process ends."""
    pod = life(probe=True)
    pod.decide(0)
    pod.started("main", "id", 0)
    assert not pod.ready
    pod.probed("main", ProbeKind.READINESS, True)
    assert pod.ready
    pod.exited("main", 137, 9, 1)
    assert not pod.ready


def test_a_failed_liveness_probe_ends_and_restarts_the_container():
    """It gets SIGTERM and its grace, and starts again even after a clean exit."""
    pod = life("OnFailure", terminationGracePeriodSeconds=5)
    pod.decide(0)
    pod.started("main", "id", 0)
    pod.probed("main", ProbeKind.LIVENESS, False, "HTTP probe returned 500")
    assert pod.decide(1) == [Signal("main", signal.SIGTERM)]
    assert pod.wake_at() == 6
    pod.exited("main", 0, None, 2)
    assert pod.decide(2.2) == [Start("main", 1)]


def test_a_shorter_grace_brings_the_kill_forward():
    """Deleting again with less time kills sooner; more time changes nothing."""
    pod = life()
    pod.decide(0)
    pod.started("main", "id", 0)
    pod.stop(StopReason.DELETED, 30)
    assert pod.decide(10) == [Signal("main", signal.SIGTERM)]
    pod.stop(StopReason.DELETED, 1)
    assert pod.decide(10.5) == []
    assert pod.decide(11) == [Signal("main", signal.SIGKILL)]


def test_a_start_without_its_objects_does_not_count():
    """A container whose Secret is missing is tried again every two seconds, and has not been restarted."""
    pod = life()
    for now in (0, 2, 4):
        assert pod.decide(now) == [Start("main", 0)]
        pod.not_configured("main", "CreateContainerConfigError", "", now)
        assert (pod.phase, pod.wake_at()) == ("Pending", now + 2)


class LifeOfAPod(RuleBasedStateMachine):
    """Any order of events that a driver can bring about."""

    def __init__(self) -> None:
        super().__init__()
        hook = {"exec": {"command": ["true"]}}
        spec = {
            "containers": [
                {"name": "a", "readinessProbe": {"tcpSocket": {"port": 1}}, "lifecycle": {"preStop": hook}},
                {"name": "b", "lifecycle": {"postStart": hook}},
            ],
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 1}}},
                {"name": "i"},
                {"name": "t", "restartPolicy": "Always"},
            ],
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 3,
        }
        self.now = 0.0
        self.pod = pod_life.PodLife(msgspec.convert(spec, pod_spec.PodSpec), self.now, deadline=200.0)
        self.starting: set[str] = set()
        self.running: set[str] = set()
        self.runs: dict[str, list[int]] = {"a": [], "b": [], "i": [], "s": [], "t": []}
        self.hooks: set[str] = set()
        self.stopped = False

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for instruction in self.pod.decide(self.now):
            if isinstance(instruction, Start):
                assert not self.stopped
                assert instruction.container not in self.starting | self.running
                self.starting.add(instruction.container)
                self.runs[instruction.container].append(instruction.run)
                self.must_be_ready_for(instruction.container)
            else:
                assert instruction.container in self.running
                if isinstance(instruction, PreStop):
                    self.hooks.add(instruction.container)
        assert self.pod.decide(self.now) == []

    def must_be_ready_for(self, name: str) -> None:
        """Main containers start after all init containers, and those in order, unless they have once."""
        if name in ("a", "b") and not self.runs[name][1:]:
            assert self.pod.initialized
        if name in ("i", "t"):
            assert self.runs["s"]

    @precondition(lambda self: self.hooks)
    @rule()
    def a_hook_ends(self) -> None:
        self.pod.pre_stop_ended(self.hooks.pop())

    @precondition(lambda self: "b" in self.running)
    @rule(problem=st.sampled_from(["", "it failed"]))
    def a_first_hook_ends(self, problem: str) -> None:
        self.pod.post_start_ended("b", problem)

    @precondition(lambda self: self.starting)
    @rule(works=st.booleans())
    def a_start_ends(self, works: bool) -> None:
        name = self.starting.pop()
        if works:
            self.running.add(name)
            self.pod.started(name, "id", self.now)
        else:
            self.pod.start_failed(name, "RunContainerError", "", self.now)

    @precondition(lambda self: self.starting)
    @rule()
    def a_start_lacks_an_object(self) -> None:
        name = self.starting.pop()
        self.runs[name].pop()
        self.pod.not_configured(name, "CreateContainerConfigError", "", self.now)

    @precondition(lambda self: self.running)
    @rule(code=st.sampled_from([0, 1, 137]))
    def a_process_ends(self, code: int) -> None:
        self.pod.exited(self.running.pop(), code, None, self.now)

    @precondition(lambda self: self.running)
    @rule(kind=st.sampled_from(ProbeKind), healthy=st.booleans())
    def a_probe_answers(self, kind: ProbeKind, healthy: bool) -> None:
        self.pod.probed(min(self.running), kind, healthy)

    @rule(reason=st.sampled_from(StopReason), grace=st.sampled_from([0.0, 2.0]))
    def it_is_stopped(self, reason: StopReason, grace: float) -> None:
        self.stopped = True
        self.pod.stop(reason, grace)

    @invariant()
    def everything_holds(self) -> None:
        self.pod.validate()
        assert self.pod.active == bool(self.starting | self.running)
        assert self.pod.phase in ("Pending", "Running", "Succeeded", "Failed")
        for runs in self.runs.values():
            assert all(after == before + 1 for before, after in pairwise(runs))

    @invariant()
    def somebody_is_always_waited_for(self) -> None:
        """Either an event is due, a process can answer, or the Pod is done; sidecars do not keep it."""
        idle = not self.starting and not self.running and self.pod.wake_at() is None
        assert not idle or self.stopped or self.pod.phase in ("Succeeded", "Failed")


LifeOfAPod.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLifeOfAPod = LifeOfAPod.TestCase
