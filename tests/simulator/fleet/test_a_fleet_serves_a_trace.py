import msgspec
import pytest

from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import Choice, LeastWork, Policy
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import ConfigError


class Diary(Observer):
    """Notes what it is told, with the requests that the endpoint had then."""

    def __init__(self):
        self.entries = []

    def sent(self, request, load, now):
        self.entries.append(("sent", now, load.endpoint.name, load.requests, load.decoding))

    def first_token(self, request, load, now):
        self.entries.append(("first", now, load.endpoint.name, load.requests, load.decoding))

    def ended(self, request, load, now):
        self.entries.append(("ended", now, load.endpoint.name, load.requests, load.decoding))


def test_a_request_takes_as_long_as_its_steps(fleet_of, timed):
    """100 prompt tokens: 2 s to the first token, and 1 s for each of the two others."""
    run = run_fleet([timed(5.0)], fleet_of(1), LeastWork(), seed=1)
    (record,) = run.records
    assert (record.outcome, record.endpoint, record.attempts) == ("served", "e-0", 1)
    assert record.ttft_s == pytest.approx(2.0)
    assert record.tpot_s == pytest.approx(1.0)
    assert run.ended_s == record.ended_s == pytest.approx(9.0)


def test_bookings_settle_at_the_times_of_the_engine(fleet_of, timed):
    """The account of an endpoint has a request until its end, and its prompt until the first token."""
    diary = Diary()
    run_fleet([timed(0.0), timed(1.0)], fleet_of(1), LeastWork(), seed=1, observer=diary)
    assert [(what, requests, decoding) for what, _, _, requests, decoding in diary.entries] == [
        ("sent", 1, 0),
        ("sent", 2, 0),
        ("first", 2, 1),
        ("first", 2, 2),
        ("ended", 1, 1),
        ("ended", 0, 0),
    ]
    assert [now for _, now, *_ in diary.entries] == pytest.approx([0, 1, 2, 4, 5, 6])


def test_simultaneous_arrivals_share_a_step(fleet_of, timed):
    """What comes at one time is in one batch: neither waits for the other."""
    run = run_fleet([timed(1.0), timed(1.0)], fleet_of(1), LeastWork(), seed=1)
    assert [record.ttft_s for record in run.records] == pytest.approx([3.0, 3.0])


def test_the_policy_sees_what_the_other_requests_owe(fleet_of, timed):
    """Least work spreads a burst evenly, since every pick is booked before the next."""
    run = run_fleet([timed(0.0) for _ in range(40)], fleet_of(8), LeastWork(), seed=1)
    assert {engine.requests for engine in run.engines} == {5}
    assert run.summary().request_imbalance == 1.0


def test_engines_of_a_fleet_may_differ(engine_of, timed):
    """A fast engine ends the same request sooner."""
    slow = msgspec.structs.replace(engine_of().costs, base_s=3.0)
    description = FleetDescription(
        groups=(
            EngineGroup(name="fast", engine=engine_of()),
            EngineGroup(name="slow", engine=engine_of(costs=slow), labels={"gpu": "old"}),
        )
    )
    run = run_fleet([timed(0.0), timed(0.0)], description, LeastWork(), seed=1)
    assert {record.endpoint: record.ttft_s for record in run.records} == pytest.approx(
        {"fast-0": 2.0, "slow-0": 4.0}
    )


def test_a_prompt_is_found_where_it_was_sent_before(fleet_of, timed):
    """The cache-aware policy goes back to the endpoint that has the prefix, and knows how much that is."""
    index = PrefixIndex()
    requests = [timed(0.0, prefix=range(10)), timed(20.0, 105, prefix=range(11))]
    run = run_fleet(requests, fleet_of(4), PredictedFirstToken(index), seed=1, prefixes=index)
    first, second = run.records
    assert first.endpoint == second.endpoint
    assert (second.cached_tokens, second.expected_cached_tokens) == (100, 100)
    assert second.ttft_s == pytest.approx(1.05)
    assert run.summary().hit_rate == pytest.approx(100 / 205)


def test_what_no_endpoint_may_take_is_refused(fleet_of, timed):
    """Beyond `max_requests` of every endpoint, and beyond the engine's context."""
    requests = [timed(0.0), timed(0.0), timed(0.5), timed(30.0, 5000)]
    run = run_fleet(requests, fleet_of(2, max_requests=1), LeastWork(), seed=1)
    assert [record.outcome for record in run.records] == ["served", "served", "refused", "refused"]
    assert [record.attempts for record in run.records] == [1, 1, 0, 1]


def test_loads_are_read_at_the_scrape_period(fleet_of, timed):
    """Every 2 s the load of the endpoint has the engine's figures of that moment."""

    class Looks(Policy):
        readings = []

        def pick(self, request, candidates, now, rng):
            reading = candidates[0].reading
            self.readings.append(reading and (reading.at, reading.running, reading.waiting, reading.kv_usage))
            return Choice(load=candidates[0])

    run_fleet([timed(at_s, 100, 20) for at_s in (0.0, 3.0, 5.0)], fleet_of(1, scrape_s=2.0), Looks(), seed=1)
    # At 2 s the first has its first token, and the step with its second begins; at 4 s both run.
    assert Looks.readings == [(0.0, 0, 0, 0.0), (2.0, 1, 0, 0.01), (4.0, 2, 0, 0.021)]


def test_an_observer_sees_more_than_the_gateway(fleet_of, timed):
    """The first token of an answer in one piece, and what an engine shows when it is read."""

    class Sees(Observer):
        def __init__(self):
            self.entries = []

        def generated(self, request, load, now):
            self.entries.append(("generated", now, load.decoding))

        def first_token(self, request, load, now):
            self.entries.append(("seen", now, load.decoding))

        def read(self, endpoint, now):
            self.entries.append(("read", now, endpoint.load.reading.running))

    sees = Sees()
    whole = msgspec.structs.replace(timed(0.0), is_streamed=False)
    run_fleet([whole], fleet_of(1, scrape_s=3.0), LeastWork(), seed=1, observer=sees)
    assert sees.entries == [("read", 0.0, 0), ("generated", 2.0, 0), ("read", 3.0, 1), ("seen", 4.0, 1)]


def test_kv_events_tell_what_engines_hold(fleet_of, timed):
    """An observer that wants them can follow each cache."""

    class Follows(Observer):
        wants_kv_events = True
        stored = []

        def kv_events(self, events, load, now):
            self.stored += [(load.endpoint.name, now, event.hashes) for event in events]

    run_fleet([timed(0.0, prefix=range(10))], fleet_of(1), LeastWork(), seed=1, observer=Follows())
    assert Follows.stored == [("e-0", 2.0, tuple(range(10)))]


def test_a_wrong_description_is_explained(engine_of):
    """All mistakes at once, by the path of the field."""
    with pytest.raises(ConfigError) as error:
        FleetDescription(
            groups=(
                EngineGroup(name="a", engine=engine_of(), count=0),
                EngineGroup(name="a", engine=engine_of()),
            ),
            scrape_s=-1,
            max_requests=0,
            retries=-1,
        )
    for path in ("groups[0].count", "groups[1].name", "scrape_s", "max_requests", "retries"):
        assert path in str(error.value)


def test_requests_are_taken_as_they_come(fleet_of, timed):
    """One ahead: who hands them out may stop, and those that came are served."""
    taken = []

    def requests():
        for at_s in range(100):
            taken.append(at_s)
            yield timed(float(at_s))
            if at_s == 3:
                return

    run = run_fleet(requests(), fleet_of(1), LeastWork(), seed=1)
    assert taken == [0, 1, 2, 3]
    assert len(run.records) == 4


def test_requests_must_come_in_order(fleet_of, timed):
    """Of a time that is over, nothing can be made up."""
    with pytest.raises(ValueError, match=r"an event at 1\.0 s lies before the virtual time 2\.0 s"):
        run_fleet([timed(2.0), timed(1.0)], fleet_of(1), LeastWork(), seed=1)
