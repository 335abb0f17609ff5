"""Whatever traffic meets whatever fleet, with whatever faults: accounts are kept and nothing is lost."""

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.fleet import EjectionPolicy, RetryBudgetPolicy
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.simulator.fleet import ColdStart, EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import EngineConfig, Fault, FaultKind, FaultSchedule, StepCosts
from headgate.traffic.traces import TimedRequest, in_turn

FAULT_KINDS = get_args(FaultKind)
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
        lambda at_s, prompt, output, family, session: TimedRequest(
            at_s=at_s,
            session=session,
            prompt_tokens=prompt,
            output_tokens=output,
            prefix=tuple(range(family, family + -(-prompt // 16))),
            block_tokens=16,
        ),
        st.floats(0, 3),
        st.integers(1, 390),
        st.integers(1, 60),
        st.sampled_from([0, 1000, 2000]),
        st.integers(-1, 2),
    ),
    max_size=25,
).map(lambda trace: sorted(trace, key=lambda request: request.at_s))
FAULTS = st.lists(
    st.builds(
        lambda kind, engines, at_s, duration_s, share: Fault(
            kind=kind,
            engines=engines,
            at_s=at_s,
            duration_s=duration_s,
            share=share,
            factor=3.0,
            delay_s=0.2,
            status=503 if share < 0.6 else 400,
        ),
        st.sampled_from(FAULT_KINDS),
        st.sampled_from(["*", "?-0", "a-*", "b-*"]),
        st.floats(0, 4),
        st.floats(0.01, 3),
        st.sampled_from([0.5, 1.0]),
    ),
    max_size=5,
).map(lambda faults: FaultSchedule(faults=tuple(faults)))
START = ColdStart(constant_s=0.3, running=0, stop_idle_s=0.2)
FLEETS = st.builds(
    lambda roles, counts, faults, retries, remote_tokens, hang_s, starts: FleetDescription(
        groups=tuple(
            EngineGroup(
                name=name,
                engine=ENGINE,
                count=count,
                role=role,
                cold_start=START if starts and role == "both" else None,
            )
            for name, role, count in zip("ab", roles, counts, strict=True)
        ),
        scrape_s=0.25,
        faults=faults,
        retries=retries,
        ejection=EjectionPolicy(failures=2, base_s=0.5, hang_s=hang_s, hang_requests=2),
        retry_budget=RetryBudgetPolicy(floor_per_s=0.1),
        remote_tokens=remote_tokens,
        link_bytes_per_s=1e8,
        link_latency_s=0.01,
        flow=FlowSettings() if starts else None,
    ),
    st.sampled_from([("both", "both"), ("prefill", "decode"), ("prefill", "both"), ("both", "decode")]),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    FAULTS,
    st.integers(0, 2),
    st.sampled_from([0, 100]),
    st.sampled_from([0.1, 30.0]),
    st.booleans(),
)


class Faithful(Observer):
    """Checks accounts and what is told while a fleet runs."""

    wants_kv_events = True

    def begins(self, endpoints):
        self.endpoints = endpoints
        self.open = 0
        self.found = {endpoint.load: (endpoint.engine, set()) for endpoint in endpoints}

    def sent(self, request, load, now):
        self.open += 1

    def ended(self, request, load, now):
        self.open -= 1
        assert load.requests >= 0

    def kv_events(self, events, load, now):
        engine = next(endpoint.engine for endpoint in self.endpoints if endpoint.load is load)
        if engine is not self.found[load][0]:
            self.found[load] = (engine, set())
        found = self.found[load][1]
        for event in events:
            if type(event).__name__ == "BlockStored":
                found |= set(event.hashes)
            else:
                found -= set(event.hashes)
        assert len(found) == engine.statistics().kv_blocks_cached


@settings(max_examples=40, deadline=None)
@given(TRACES, FLEETS, st.integers(0, 5), st.booleans())
def test_no_request_is_lost_whatever_goes_wrong(trace, description, seed, is_closed):
    """One record each, times in order, no more cached than asked; no account and no block stays open; and
    the same inputs give the same run."""
    trace = in_turn(trace) if is_closed else trace

    def run(observer=None):
        index = PrefixIndex()
        policy = PredictedFirstToken(index)
        return run_fleet(trace, description, policy, seed=seed, prefixes=index, observer=observer)

    observer = Faithful()
    result = run(observer)
    assert observer.open == 0
    assert [record.number for record in result.records] == list(range(len(trace)))
    for record, request in zip(result.records, trace, strict=True):
        assert 0 <= record.cached_tokens < request.prompt_tokens
        assert 0 <= record.attempts <= description.retries + 1
        if record.outcome == "served":
            assert record.output_tokens == request.output_tokens
            assert (
                request.at_s <= record.arrived_s <= record.started_s <= record.first_token_s <= record.ended_s
            )
        elif not description.faults.faults:
            assert record.outcome == "refused"
    for endpoint in observer.endpoints:
        assert endpoint.load.requests == endpoint.load.work_tokens == endpoint.load.output_tokens == 0
        endpoint.engine.validate()
        assert endpoint.engine.statistics().kv_blocks_used == 0
    assert run() == result
