import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import LeastWork
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import ConfigError, EngineConfig, StepCosts
from headgate.simulator.traces import TimedRequest


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

    class Looks(LeastWork):
        readings = []

        def pick(self, request, candidates, now, rng):
            reading = candidates[0].reading
            self.readings.append(reading and (reading.at, reading.running, reading.waiting, reading.kv_usage))
            return super().pick(request, candidates, now, rng)

    run_fleet([timed(at_s, 100, 20) for at_s in (0.0, 3.0, 5.0)], fleet_of(1, scrape_s=2.0), Looks(), seed=1)
    # At 2 s the first has its first token, and the step with its second begins; at 4 s both run.
    assert Looks.readings == [(0.0, 0, 0, 0.0), (2.0, 1, 0, 0.01), (4.0, 2, 0, 0.021)]


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


ENGINE = EngineConfig(
    costs=StepCosts(base_s=0.01, per_decode_sequence_s=1e-4, per_kv_token_s=1e-6, per_prefill_token_s=1e-4),
    max_num_seqs=3,
    max_model_len=400,
    prefill_budget_tokens=64,
    kv_blocks=30,
    block_size=16,
    max_waiting=4,
)
TRACES = st.lists(
    st.builds(
        lambda at_s, prompt, output, family: TimedRequest(
            at_s=at_s,
            prompt_tokens=prompt,
            output_tokens=output,
            prefix=tuple(range(family, family + -(-prompt // 16))),
            block_tokens=16,
        ),
        st.floats(0, 3),
        st.integers(1, 390),
        st.integers(1, 60),
        st.sampled_from([0, 1000, 2000]),
    ),
    max_size=25,
)


class Faithful(Observer):
    """Checks accounts and what is told while a fleet runs."""

    wants_kv_events = True

    def begins(self, engines):
        self.engines = engines
        self.open = 0
        self.found = {load: set() for load in engines}

    def sent(self, request, load, now):
        self.open += 1

    def ended(self, request, load, now):
        self.open -= 1
        assert load.requests >= 0

    def kv_events(self, events, load, now):
        for event in events:
            if type(event).__name__ == "BlockStored":
                self.found[load] |= set(event.hashes)
            else:
                self.found[load] -= set(event.hashes)
        assert len(self.found[load]) == self.engines[load].statistics().kv_blocks_cached


@settings(max_examples=60, deadline=None)
@given(TRACES, st.integers(1, 3), st.integers(0, 5))
def test_no_request_is_lost_and_runs_are_reproducible(trace, engines, seed):
    """One record each, times in order, no more cached than asked; the same inputs give the same run."""
    trace = sorted(trace, key=lambda request: request.at_s)
    description = FleetDescription(
        groups=(EngineGroup(name="e", engine=ENGINE, count=engines),), scrape_s=0.25
    )

    def run(observer=None) -> object:
        index = PrefixIndex()
        policy: scheduling.Policy = PredictedFirstToken(index)
        return run_fleet(trace, description, policy, seed=seed, prefixes=index, observer=observer)

    observer = Faithful()
    result = run(observer)
    assert observer.open == 0
    assert all(load.requests == load.work_tokens == 0 for load in observer.engines)
    assert [record.number for record in result.records] == list(range(len(trace)))
    for record, request in zip(result.records, trace, strict=True):
        assert record.outcome in ("served", "refused")
        assert 0 <= record.cached_tokens < request.prompt_tokens
        if record.outcome == "served":
            assert record.output_tokens == request.output_tokens
            assert request.at_s <= record.started_s <= record.first_token_s <= record.ended_s
    for engine in observer.engines.values():
        engine.validate()
    assert run() == run()
