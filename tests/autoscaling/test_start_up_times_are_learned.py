"""How long a replica takes to start is learned from Pods that were created while somebody looked."""

import random

from headgate.autoscaling import Bounds, History, MetricTarget, Observation, PodSample, Policy, decide

POLICY = Policy((MetricTarget("load", 1.0),))


def passes(*steps: tuple[float, list[PodSample]], history: History | None = None) -> History:
    history = history or History.empty()
    for now, pods in steps:
        observation = Observation(now, len(pods), sum(pod.is_ready for pod in pods), pods)
        _, history = decide(POLICY, Bounds(1, 10), history, observation)
    return history


def pod(name: str, created_at: float | None, ready: bool) -> PodSample:
    return PodSample(name, ready, {"load": 1.0} if ready else {}, created_at)


def test_a_pod_that_becomes_ready_tells_how_long_it_took() -> None:
    old = pod("old", 0, True)
    history = passes(
        (1_000, [old]),
        (1_015, [old, pod("new", 1_002, False)]),
        (1_060, [old, pod("new", 1_002, False)]),
        (1_075, [old, pod("new", 1_002, True)]),
        (1_090, [old, pod("new", 1_002, True)]),
    )
    assert history.starts.durations_s == (73.0,)
    assert history.expected_start_s == 73


def test_a_pod_that_started_between_two_passes_counts() -> None:
    assert passes((1_000, []), (1_015, [pod("new", 1_003, True)])).expected_start_s == 12


def test_a_pod_that_waited_for_hours_teaches_nothing() -> None:
    """It waited for room in the cluster, say. Requests at zero would be rejected by such an expectation."""
    coming, ready = pod("new", 1_001, False), pod("new", 1_001, True)
    assert passes((1_000, []), (1_015, [coming]), (20_000, [ready])).expected_start_s is None
    assert passes((1_000, []), (1_015, [coming]), (4_600, [ready])).expected_start_s == 3_599


def test_a_restart_of_a_ready_pod_is_not_a_start() -> None:
    ready, down = pod("old", 0, True), pod("old", 0, False)
    assert passes((1_000, [ready]), (1_015, [down]), (1_300, [ready])).expected_start_s is None


def test_nothing_is_learned_from_pods_that_were_there_before() -> None:
    assert passes((1_000, [pod("a", 900, False)]), (1_015, [pod("a", 900, True)])).expected_start_s is None


def test_without_creation_times_nothing_is_learned() -> None:
    assert passes((1_000, []), (1_015, [pod("a", None, False)]), (1_030, [pod("a", None, True)])).starts == (
        History.empty().starts
    )


def test_the_expected_time_covers_three_of_four_and_the_memory_is_bounded() -> None:
    history, rng = passes((0, [])), random.Random(1)
    for start in range(100):
        now, took = 10_000.0 * start + 100, rng.uniform(60, 100)
        history = passes(
            (now, []),
            (now + 15, [pod("new", now + 1, False)]),
            (now + 1 + took, [pod("new", now + 1, True)]),
            history=history,
        )
    assert len(history.starts.durations_s) == 16
    expected = history.expected_start_s
    assert expected is not None
    assert sum(took <= expected for took in history.starts.durations_s) == 12


def test_pods_that_never_start_are_forgotten() -> None:
    gone = passes((1_000, []), (1_015, [pod("a", 1_001, False)]), (1_030, []))
    assert gone.starts == History.empty().starts
