import pytest

from headgate.scheduling import LeastWork
from headgate.simulator.fleet import Observer, run_fleet
from headgate.simulator.model import Fault, FaultSchedule


@pytest.fixture
def run(fleet_of, timed):
    """Runs requests on a fleet with faults; 2 s to the first token, then 1 s for each of two others."""

    def make(requests, *faults, engines=2, observer=None, **description):
        schedule = FaultSchedule(faults=faults)
        fleet = fleet_of(engines, faults=schedule, **description)
        return run_fleet(requests, fleet, LeastWork(), seed=1, observer=observer)

    return make


def test_a_crash_before_the_first_token_is_tried_elsewhere(run, timed):
    """The client waits longer, and sees nothing of it."""
    result = run([timed(0.0)], Fault(kind="crash", at_s=1.0, duration_s=9), engines=1, retries=0)
    assert [(record.outcome, record.ended_s) for record in result.records] == [("failed", 1.0)]
    result = run([timed(0.0)], Fault(kind="crash", engines="e-0", at_s=1.0, duration_s=9), engines=1)
    assert result.records[0].outcome == "failed", "there is nowhere else"
    both = [timed(0.0), timed(0.0)]
    result = run(both, Fault(kind="crash", engines="e-0", at_s=1.0, duration_s=9))
    retried = next(record for record in result.records if record.attempts == 2)
    assert (retried.outcome, retried.endpoint) == ("served", "e-1")
    assert retried.ttft_s == pytest.approx(4.0), "the other's step ends at 2 s, and takes it up then"
    assert result.engines[0].crashes == 1


def test_a_crash_after_the_first_token_cuts_the_answer_off(run, timed):
    """What came has come; nothing is tried again."""
    result = run([timed(0.0)], Fault(kind="crash", at_s=3.5, duration_s=9), engines=1)
    (record,) = result.records
    assert (record.outcome, record.attempts, record.output_tokens) == ("failed", 1, 2)
    assert record.ttft_s == pytest.approx(2.0)


def test_an_engine_comes_back_with_an_empty_cache(run, timed):
    """Before the crash a prompt was cached there."""
    prompts = [timed(at_s, prefix=range(10)) for at_s in (0.0, 10.0, 30.0)]
    result = run(prompts, Fault(kind="crash", at_s=20.0, duration_s=5), engines=1)
    assert [record.cached_tokens for record in result.records] == [0, 90, 0]


def test_an_endpoint_that_is_down_fails_at_once_and_is_avoided(run, timed):
    """Its health is the gateway's: after a failure others are asked first."""
    requests = [timed(1.0 + at * 0.2) for at in range(10)]
    result = run(requests, Fault(kind="crash", engines="e-0", at_s=0.0, duration_s=60))
    assert {record.outcome for record in result.records} == {"served"}
    assert {record.endpoint for record in result.records} == {"e-1"}
    assert sum(record.attempts for record in result.records) < 20


def test_a_slow_engine_takes_longer_for_each_step(run, timed):
    """A gray failure of factor 3: 2 s become 6."""
    slow = Fault(kind="slow", at_s=0.0, duration_s=100, factor=3)
    result = run([timed(0.0), timed(200.0)], slow, engines=1)
    assert [record.ttft_s for record in result.records] == pytest.approx([6.0, 2.0])


def test_a_step_under_way_goes_on_as_it_was(run, timed):
    """Only steps that begin in the time of the fault are slow."""
    slow = Fault(kind="slow", at_s=2.5, duration_s=1.0, factor=5)
    (record,) = run([timed(0.0)], slow, engines=1).records
    assert record.ended_s == pytest.approx(2 + 1 + 5)


def test_a_stall_holds_steps_back_until_its_end(run, timed):
    """A step under way ends; the next begins when the stall is over."""
    stall = Fault(kind="stall", at_s=2.5, duration_s=10)
    first, second = run([timed(0.0), timed(5.0)], stall, engines=1).records
    assert first.ended_s == pytest.approx(14.5)
    assert second.ttft_s == pytest.approx(9.5), "it waits for the stall and then has a step of its own"


def test_an_endpoint_that_is_not_ready_gets_nothing_new(run, timed):
    """What it has goes on; if none is ready, requests are refused."""
    unready = Fault(kind="unready", engines="e-0", at_s=1.0, duration_s=10)
    result = run([timed(0.0), timed(0.0), *(timed(2.0) for _ in range(6))], unready)
    assert {record.outcome for record in result.records} == {"served"}
    assert {record.endpoint for record in result.records[2:]} == {"e-1"}
    assert run([timed(2.0)], unready, engines=1).records[0].outcome == "refused"


def test_late_requests_reach_the_engine_later(run, timed):
    """The delay is in the client's TTFT."""
    late = Fault(kind="latency", at_s=0.0, delay_s=0.7)
    assert run([timed(0.0)], late, engines=1).records[0].ttft_s == pytest.approx(2.7)


def test_errors_that_say_try_elsewhere_are_and_others_are_the_clients(run, timed):
    """503 is tried on the other endpoint; 400 ends the request."""

    def outcomes(status):
        fault = Fault(kind="error", engines="e-0", at_s=0.0, status=status)
        records = run([timed(0.0), timed(0.0)], fault).records
        return sorted((record.outcome, record.attempts) for record in records)

    assert outcomes(503) == [("served", 1), ("served", 2)]
    assert outcomes(400) == [("failed", 1), ("served", 1)]


def test_about_the_share_of_requests_is_concerned(run, timed):
    """By chance, from the seed."""
    fault = Fault(kind="error", at_s=0.0, status=400, share=0.3)
    result = run([timed(at * 0.1) for at in range(300)], fault)
    assert 60 <= result.summary().failed <= 120


class Readings(Observer):
    """What the gateway knew of the endpoint at each request."""

    def __init__(self):
        self.seen = []

    def sent(self, request, load, now):
        self.seen.append(load.reading and (load.reading.at, load.reading.running))


def test_without_metrics_the_last_reading_is_good_for_a_while(run, timed):
    """Three periods; then nothing is known."""
    readings = Readings()
    blackout = Fault(kind="blackout", at_s=1.5, duration_s=98)
    run(
        [timed(at_s) for at_s in (0.5, 4.0, 9.0, 101.5)], blackout, engines=1, scrape_s=1.0, observer=readings
    )
    assert readings.seen == [(0.0, 0), (1.0, 1), None, (101.0, 0)]


def test_old_metrics_look_fresh(run, timed):
    """The page shows what it showed as the fault began."""
    readings = Readings()
    stale = Fault(kind="stale", at_s=1.5, duration_s=50)
    run([timed(at_s) for at_s in (0.5, 20.5)], stale, engines=1, scrape_s=1.0, observer=readings)
    assert readings.seen == [(0.0, 0), (20.0, 1)]
