import pytest

from headgate.simulator.model import ConfigError, Fault, FaultSchedule


def faults_of(*faults, engine="e-0"):
    return FaultSchedule(faults=faults).of(engine)


def test_a_fault_is_in_force_from_its_beginning_to_before_its_end():
    """At its end the engine is well again."""
    faults = faults_of(Fault(kind="crash", at_s=10, duration_s=5))
    assert [faults.is_down(now) for now in (9.9, 10, 14.9, 15)] == [False, True, True, False]
    assert faults.changes() == [10, 15]


def test_a_fault_concerns_the_engines_that_its_pattern_names():
    """By shell patterns; all without one."""
    schedule = FaultSchedule(faults=(Fault(kind="crash", engines="old-*", at_s=0, duration_s=1),))
    assert schedule.of("old-1").is_down(0)
    assert not schedule.of("new-1").is_down(0)
    assert not schedule.of("new-1")


def test_faults_at_one_time_add_up():
    """Slowdowns multiply, delays add, the longest stall counts."""
    faults = faults_of(
        Fault(kind="slow", at_s=0, factor=2),
        Fault(kind="slow", at_s=5, duration_s=5, factor=1.5),
        Fault(kind="stall", at_s=1, duration_s=3),
        Fault(kind="stall", at_s=2, duration_s=5),
        Fault(kind="latency", at_s=0, delay_s=0.5),
        Fault(kind="latency", at_s=0, delay_s=2.0, share=0.1),
    )
    assert [faults.slowdown(now) for now in (0, 6, 10)] == [2, 3, 2]
    assert [faults.stalled_until(now) for now in (0, 1, 2, 7)] == [0, 4, 7, 7]
    assert [faults.late_s(0, draw) for draw in (0.05, 0.5)] == [2.5, 0.5]


def test_an_unready_endpoint_may_flap():
    """Half of each period it is not ready."""
    faults = faults_of(Fault(kind="unready", at_s=10, duration_s=4, period_s=2))
    assert [faults.is_ready(now) for now in (9, 10, 10.9, 11, 12, 13, 14)] == [
        *(True, False, False, True, False, True, True)
    ]
    assert faults.changes() == [10, 11, 12, 13, 14]


def test_metrics_may_be_absent_or_old():
    """No page, or one that shows what it showed before."""
    faults = faults_of(
        Fault(kind="blackout", at_s=1, duration_s=1), Fault(kind="stale", at_s=5, duration_s=10)
    )
    assert [faults.has_metrics(now) for now in (0, 1, 2)] == [True, False, True]
    assert [faults.has_old_metrics(now) for now in (4, 5, 14, 15)] == [False, True, True, False]


def test_a_share_of_requests_is_answered_with_an_error():
    """Whom it meets is for the caller's random number."""
    faults = faults_of(Fault(kind="error", at_s=0, status=503, share=0.25))
    errors = [faults.error(0, draw) for draw in (0.0, 0.2, 0.25, 0.9)]
    assert [error and error.status for error in errors] == [503, 503, None, None]


def test_a_stopped_process_does_nothing():
    """Steps and pages wait for its end."""
    faults = faults_of(Fault(kind="stop", at_s=1, duration_s=3))
    assert [faults.stopped_until(now) for now in (0, 1, 4)] == [0, 4, 4]
    assert [faults.stalled_until(now) for now in (0, 1, 4)] == [0, 4, 4]
    assert [faults.has_metrics(now) for now in (0, 1, 4)] == [True, False, True]


def test_errors_may_ask_for_a_rest():
    """As engines do with 429, unless it is said otherwise."""
    rests = [
        Fault(kind="error", at_s=0, status=status, retry_after_s=rest_s).rest_s
        for status, rest_s in ((429, None), (503, None), (429, 0), (503, 20))
    ]
    assert rests == [1.0, None, None, 20]


def test_all_mistakes_of_a_schedule_are_told():
    """By the place of the fault and its field."""
    with pytest.raises(ConfigError) as error:
        FaultSchedule(
            faults=(
                Fault(kind="slow", at_s=-1),
                Fault(kind="stall", at_s=0),
                Fault(kind="latency", at_s=0, share=2),
                Fault(kind="error", at_s=0, status=200),
                Fault(kind="unready", at_s=0, period_s=0.1),
                Fault(kind="crash", at_s=0, duration_s=0, period_s=1),
                Fault(kind="stop", at_s=0, retry_after_s=1),
            )
        )
    for path in (
        *(
            "faults[0].at_s",
            "faults[0].factor",
            "faults[1].duration_s",
            "faults[2].share",
            "faults[2].delay_s",
        ),
        *("faults[3].status", "faults[4].period_s", "faults[5].duration_s", "faults[5].period_s"),
        *("faults[6].duration_s", "faults[6].retry_after_s"),
    ):
        assert path in str(error.value)


def test_a_schedule_is_read_from_objects():
    """As JSON and YAML have them; what cannot be read is told by its place."""
    schedule = FaultSchedule.from_objects([{"kind": "slow", "at_s": 3, "factor": 2.5, "engines": "a*"}])
    assert schedule.faults == (Fault(kind="slow", at_s=3.0, factor=2.5, engines="a*"),)
    with pytest.raises(ConfigError) as error:
        FaultSchedule.from_objects([{"kind": "fire", "at_s": 3}, {"kind": "crash", "at": 3}])
    assert "faults[0]: Invalid enum value 'fire'" in str(error.value)
    assert "faults[1]: Object contains unknown field `at`" in str(error.value)


def test_an_endpoint_that_flaps_changes_at_the_very_times_that_are_told():
    """Whatever the period's bits: a driver that asks at each change sees each of them."""
    faults = faults_of(Fault(kind="unready", at_s=0.1, duration_s=100.2, period_s=0.6))
    states = [faults.is_ready(now) for now in faults.changes()]
    assert states == [at % 2 == 1 for at in range(len(states) - 1)] + [True]
    assert len(states) == 335
