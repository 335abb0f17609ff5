"""What waits in a simulated fleet does so by all rules of the gateway, in virtual time."""

from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowSettings
from headgate.scheduling import LeastWork
from headgate.simulator.fleet import Observer, run_fleet
from headgate.simulator.fleet.queue_shell import VirtualAlarm
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.model import Fault, FaultSchedule

ONE_AT_A_TIME = CapacitySettings(detector="concurrency-detector", max_requests=1)


def test_an_alarm_rings_at_the_time_that_was_set_last():
    """Whether that is later or earlier than the one before."""
    timeline, looks = Timeline(), []
    alarm = VirtualAlarm(timeline, lambda now: (alarm.stop(), looks.append(now)), lambda: None)
    alarm.wake_at(5.0, 0.0)
    alarm.stop()
    alarm.wake_at(7.0, 0.0)
    timeline.run()
    assert looks == [7.0]
    alarm.wake_at(20.0, 7.0)
    alarm.stop()
    alarm.wake_at(10.0, 7.0)
    timeline.run()
    assert looks == [7.0, 10.0]


def test_a_queue_that_is_woken_while_it_looks_looks_once_more():
    """After it has looked, and before anybody is told that it has."""
    told = []

    def look(now):
        alarm.stop()
        told.append("looks")
        if len(told) < 3:
            alarm.wake()
            alarm.wake()

    alarm = VirtualAlarm(Timeline(), look, lambda: told.append("has looked"))
    alarm.wake()
    assert told == ["looks", "looks", "looks", "has looked"]


def test_running_requests_end_for_those_that_wait(fleet_of, timed):
    """If that is set, and they may be shed."""
    requests = [timed(0.0, 2000, priority=-1), timed(1.0, priority=1)]
    flow = FlowSettings(ttl_s=0, evicts_running=True)
    run = run_fleet(requests, fleet_of(1, flow=flow, capacity=ONE_AT_A_TIME), LeastWork(), seed=1)
    assert [record.outcome for record in run.records] == ["failed", "served"]
    assert run.records[0].ended_s < run.records[1].ended_s


class Sent(Observer):
    """Notes when each endpoint got a request."""

    def __init__(self):
        self.times = {"e-0": [], "e-1": []}

    def sent(self, request, load, now):
        self.times[load.endpoint.name].append(now)


def test_an_endpoint_that_is_ejected_has_no_capacity_until_it_is_back(fleet_of, timed):
    """Meanwhile the other gets no more than its own: a request takes 4 s. Then both get as many."""
    requests = [timed(at / 2) for at in range(100)]
    faults = FaultSchedule(faults=(Fault(kind="crash", engines="e-0", at_s=0.0, duration_s=30.0),))
    fleet = fleet_of(2, flow=FlowSettings(ttl_s=0), capacity=ONE_AT_A_TIME, faults=faults)
    sent = Sent()
    run = run_fleet(requests, fleet, LeastWork(), seed=1, observer=sent)
    assert {record.outcome for record in run.records} == {"served"}
    assert run.engines[0].ejections > 0
    assert [at for at in sent.times["e-1"] if 12 < at < 36] == [16, 20, 24, 28, 32]
    for times in sent.times.values():
        assert [at for at in times if 40 < at < 80] == list(range(44, 80, 4))
