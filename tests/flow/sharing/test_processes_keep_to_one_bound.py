"""Several queues of one pool are one, as near as the time between two reports comes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_processes import Process

from headgate.flow.capacity import Capacity, Pace
from headgate.flow.queue import BandSettings, FlowSettings, Usage, WindowSettings
from headgate.flow.sharing import Charge, Hub, PoolReport


def exchange(hub, processes, now=0.0):
    """All tell what they have, and are told."""
    for process in processes:
        hub.hear(process, {"pool": process.queue.report(process.came, process.charges.take(), now)})
        process.came = Counter()
    for process, shares in hub.shares().items():
        process.take(shares["pool"], now)


class Always(Capacity):
    """A pool with room for so many requests, whoever asks."""

    slots = 0
    is_paced = True

    def is_empty(self):
        return False

    def saturation(self, now):
        return 1.0

    def has_room(self, priority, now):
        return self.slots > 0

    def sent(self, now):
        self.slots -= 1


def made(count, capacity=Always, **settings):
    flow = FlowSettings(**settings)
    hub = Hub(count)
    processes = [Process(flow, capacity(), count, number) for number in range(count)]
    exchange(hub, processes)
    return hub, processes


@given(
    count=st.integers(1, 4),
    most=st.integers(1, 30),
    bursts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=12),
)
def test_no_more_wait_than_one_queue_would_hold(count, most, bursts):
    """Wherever they come, and however many at once; of one priority and in all."""
    hub, processes = made(count, max_requests=most, band=BandSettings(max_requests=max(most // 2, 1)))
    for place, requests in bursts:
        for number in range(requests):
            processes[place % count].enter(priority=number % 2)
        for priority in (0, 1):
            waiting = sum(len(process.queue._bands.of(priority)) for process in processes)
            assert waiting <= max(most // 2, 1)
        assert sum(len(process.queue) for process in processes) <= most
        exchange(hub, processes)
        for process in processes:
            process.queue.validate()


def test_all_of_a_bound_is_used_where_all_requests_come():
    """Although the others have a part in it at first, and give it up before anybody else has it."""
    hub, processes = made(4, max_requests=100)
    for _ in range(12):
        while processes[0].enter():
            pass
        exchange(hub, processes)
    assert len(processes[0].queue) == 100


def test_a_process_that_ends_leaves_the_others_what_it_had_beyond_its_part():
    """With which the next in its place begins, whoever was told what before."""
    hub, processes = made(2, max_requests=10)
    for _ in range(10):
        while processes[0].enter():
            pass
        exchange(hub, processes)
    assert len(processes[0].queue) >= 9
    hub.forget(processes[0])
    exchange(hub, processes[1:])
    fresh = Process(FlowSettings(max_requests=10), Always(), 2, 0)
    processes = [fresh, processes[1]]
    for _ in range(10):
        for process in processes:
            while process.enter():
                pass
        assert sum(len(process.queue) for process in processes) <= 10
        exchange(hub, processes)
    assert [len(process.queue) for process in processes] == [5, 5]


def test_a_process_that_ends_takes_no_place_from_those_that_had_few():
    """The next in its place begins with an equal part, which those give up that had more."""
    hub, processes = made(3, max_requests=300)
    for _ in range(30):
        for requests, process in zip((1, 30, 1), processes, strict=True):
            process.came[0] = requests  # which went at once
        exchange(hub, processes)
    few, many, ended = processes
    had = few.queue.bounds.all.requests
    assert had < many.queue.bounds.all.requests / 3
    hub.forget(ended)
    for _ in range(5):
        exchange(hub, [few, many])
        assert few.queue.bounds.all.requests >= had * 2 / 3
    assert few.queue.bounds.all.requests + many.queue.bounds.all.requests <= 200


def test_requests_in_flight_are_bounded_for_all():
    """Kthena's FAIRNESS_MAX_CONCURRENT: 10 for two processes, one of which has all the requests at first."""
    endpoint = object()
    running = Counter()

    class Counted(Capacity):
        def __init__(self):
            super().__init__()
            self.loads = [endpoint]

        def fullness(self, now):
            return running[self] / 10

        def saturation(self, now):
            return self.fullness(now) / self.share

    hub, processes = made(2, capacity=Counted)
    most = []
    for step in range(60):
        now = step / 10
        for place, process in enumerate(processes):
            for _ in range(4 if place == 0 or step > 20 else 0):
                process.enter(now, flow="ab"[place])
            while (waiting := process.queue.next(now)) is not None:
                running[process.capacity] += 1
                process.sent.append(waiting)
        most.append(running.total())
        exchange(hub, processes, now)
        for process in processes:
            running[process.capacity] -= min(running[process.capacity], 1)
    assert max(most) <= 10 + 1
    assert min(most[10:20]) >= 9
    late = [len(process.sent) for process in processes]
    assert late[1] > 30


@pytest.mark.parametrize("processes", [2, 4])
def test_a_rate_is_one_for_all(processes):
    """Kthena's FAIRNESS_MAX_QPS of 100, with all requests at one process."""
    endpoint = object()

    def pace():
        made = Pace(100.0)
        made.loads = [endpoint]
        return made

    hub, made_of = made(processes, capacity=pace)
    for _ in range(2000):
        made_of[0].enter()
    for step in range(1, 2001):
        now = step / 200
        for process in made_of:
            process.look(now)
        if step % 20 == 0:
            exchange(hub, made_of, now)
    assert 850 <= len(made_of[0].sent) <= 1000


def test_a_rate_that_moves_is_followed_at_once():
    """Who had little of it, and has sent, need not wait for as long as with that."""
    capacity = Pace(1.0)
    capacity.loads = [object()]
    capacity.take_share(0.01)
    capacity.sent(0.0)
    assert capacity.room_at(0, 0.0) == pytest.approx(100.0)
    capacity.take_share(0.5)
    assert capacity.room_at(0, 0.0) == pytest.approx(2.0)
    assert capacity.has_room(0, 2.0)


@given(st.lists(st.integers(-50_000, 50_000), max_size=20))
def test_what_others_put_right_is_no_credit(works):
    """A flow may have been charged for less here, or for nothing, before it is told to have taken less."""
    _, (one, _) = made(2, quantum=100)
    for flow in ("a", "b"):
        for _ in range(3):
            one.enter(flow=flow)
    one.queue.charge([Charge(priority=0, flow="a", sent=work) for work in works], 0.0)
    one.capacity.slots = 4
    one.look(0.0)
    assert [waiting.flow for waiting in one.sent].count("a") <= 2


def test_a_tenant_at_several_processes_has_no_more_than_one_at_a_single():
    """Both have as much work done in the end, though one waits at four processes and the other at one."""
    hub, processes = made(4, max_requests=0, band=BandSettings(max_requests=0))
    for process in processes:
        for _ in range(1500):
            process.enter(flow="wide")
    for _ in range(1500):
        processes[0].enter(flow="narrow")
    done = Counter()
    for step in range(50):
        now = step / 10
        exchange(hub, processes, now)
        rooms = [process.capacity.share for process in processes]
        for process, room in zip(processes, rooms, strict=True):
            process.capacity.slots += 40 * room
            process.look(now)
    for process in processes:
        done.update(waiting.flow for waiting in process.sent)
    assert done["narrow"] / done["wide"] == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("fairness", ["windowed-usage", "program-aware-fairness"])
def test_what_a_flow_used_counts_everywhere(fairness):
    """Who was served at another process is behind who was not."""
    hub, (one, two) = made(2, band=BandSettings(fairness=fairness))
    for flow in ("greedy", "modest"):
        two.enter(flow=flow)
    usage = Usage(prompt_tokens=1000, output_tokens=500)
    one.queue.served("greedy", 0, 0, usage, 0.0)
    one.charges.add(0, "greedy", prompt=1000, output=500, requests=1)
    exchange(hub, [one, two])
    two.capacity.slots = 2
    two.look(0.0)
    assert [waiting.flow for waiting in two.sent] == ["modest", "greedy"]


def test_requests_count_by_their_number():
    """Where a window weighs them, as several are told at once."""
    window = WindowSettings(token_weight=0.0, request_weight=1.0)
    hub, (one, two) = made(2, band=BandSettings(fairness="windowed-usage"), window=window)
    for _ in range(3):
        one.charges.add(0, "a", prompt=1, requests=1)
    two.enter(flow="a")
    exchange(hub, [one, two])
    (flow,) = two.queue.explain(0.0).bands[0].flows
    assert flow.standing == "3 used in 300 s"


def test_nothing_is_told_twice():
    """Nor to the one that it came from."""
    hub, (one, two) = made(2, band=BandSettings(fairness="windowed-usage"))
    one.charges.add(0, "a", prompt=10, requests=1)
    hub.hear(one, {"pool": one.queue.report({}, one.charges.take(), 0.0)})
    told = hub.shares()
    assert told[one]["pool"].charges == ()
    assert [charge.prompt for charge in told[two]["pool"].charges] == [10]
    exchange(hub, [one, two])
    assert hub.shares() == {}


def test_nothing_is_kept_of_a_pool_that_is_gone():
    """Not even what others would have been told of it."""
    hub: Hub[str] = Hub(2)
    for who in "ab":
        hub.hear(who, {"pool": PoolReport(charges=[Charge(priority=0, flow="a", prompt=1)])})
    for who in "ab":
        hub.drop(who, ["pool"])
    assert hub.shares() == {}
    assert not hub._owed


def test_each_is_told_how_full_the_others_make_the_pool():
    """As far as that is counted."""
    hub: Hub[str] = Hub(3)
    for who, fullness in (("a", 0.25), ("b", 0.5), ("c", None)):
        hub.hear(who, {"pool": PoolReport(fullness=fullness)})
    told = {who: shares["pool"].elsewhere for who, shares in hub.shares().items()}
    assert told == {"a": 0.5, "b": 0.25, "c": 0.75}
