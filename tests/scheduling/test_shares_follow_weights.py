"""Over time, endpoints get shares of the requests by their weights, as far as their load allows it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_endpoints import request

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling.weighted import MOST_BEHIND, MOST_GROUPS
from headgate.simulator.fleet import EngineGroup, FleetDescription, FleetRun, run_fleet
from headgate.simulator.model import EngineConfig, StepCosts
from headgate.traffic.traces import TimedRequest
from headgate.traffic.workloads.patterns import Chat

PER_MINUTE = {"h100": 1734.0, "l40s": 219.0}
"""What a replica takes within the objectives, by the plan of examples/planning/system.json."""
TTFT_S, ITL_S = 0.5, 0.024


def engine(base_ms: float, sequence_ms: float, token_ms: float, batch: int) -> EngineConfig:
    """One with the profile of a plan: alpha, beta and delta."""
    costs = StepCosts(
        base_s=base_ms / 1000,
        per_decode_sequence_s=sequence_ms / 1000,
        per_kv_token_s=0.0,
        per_prefill_token_s=token_ms / 1000,
    )
    return EngineConfig(
        costs=costs, max_num_seqs=batch, max_model_len=50_000, prefill_budget_tokens=8192, kv_blocks=40_000
    )


H100 = engine(6.958, 0.042, 0.02, 128)
L40S = engine(18.6, 0.181, 0.05, 32)


def variants(
    fast: EngineConfig = H100, slow: EngineConfig = L40S, counts: tuple[int, int] = (1, 1)
) -> tuple[EngineGroup, ...]:
    """Two variants of a model, with the weights of their plan."""
    engines = (("h100", fast, counts[0]), ("l40s", slow, counts[1]))
    return tuple(
        EngineGroup(name=name, engine=each, count=count, weight=PER_MINUTE[name] / 1000)
        for name, each, count in engines
    )


def arrivals(per_minute: float, count: int, seed: int = 1) -> list[TimedRequest]:
    """At random, with 256 tokens in and out on average."""
    rng, now = random.Random(seed), 0.0
    made = []
    for _ in range(count):
        now += rng.expovariate(per_minute / 60)
        tokens = [round(256 * rng.uniform(0.5, 1.5)) for _ in range(2)]
        made.append(TimedRequest(at_s=now, prompt_tokens=tokens[0], output_tokens=tokens[1]))
    return made


def served(
    requests: Sequence[TimedRequest], groups: tuple[EngineGroup, ...], *, weighted: bool = True
) -> FleetRun:
    prefixes = PrefixIndex()
    policy: scheduling.Policy = scheduling.PredictedFirstToken(prefixes)
    if weighted:
        policy = scheduling.Weighted(scheduling.PredictedFirstToken(prefixes))
    description = FleetDescription(groups=groups, scrape_s=1.0)
    return run_fleet(requests, description, policy, seed=1, prefixes=prefixes)


def shares(run: FleetRun) -> Mapping[str, float]:
    counted = Counter(each.endpoint.rpartition("-")[0] for each in run.records)
    return {name: count / len(run.records) for name, count in counted.items()}


def attained(run: FleetRun) -> float:
    """Share of the requests within both objectives; a tenth is warm-up."""
    records = run.records[len(run.records) // 10 :]
    good = sum(
        each.ttft_s is not None and each.ttft_s <= TTFT_S and (each.tpot_s or 0.0) <= ITL_S
        for each in records
    )
    return good / len(records)


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_what_is_planned_is_what_is_sent(counts, load):
    """Two variants of unequal speed, at a part of the load that their plan is for."""
    planned = {name: PER_MINUTE[name] * count for name, count in zip(PER_MINUTE, counts, strict=True)}
    whole = sum(planned.values())
    run = served(arrivals(load * whole, 1500), variants(counts=counts))
    assert shares(run)["l40s"] == pytest.approx(planned["l40s"] / whole, rel=0.05)
    assert attained(run) > 0.98


def test_planned_shares_hold_objectives_that_load_alone_does_not():
    """Near the planned load, the slow variant gets too many requests without weights."""
    requests = arrivals(0.95 * sum(PER_MINUTE.values()), 2000)
    assert attained(served(requests, variants())) > 0.95
    assert attained(served(requests, variants(), weighted=False)) < 0.93


def test_an_endpoint_slower_than_its_weight_gets_less():
    """At a third of the speed that was planned with, it gets less than half of its share, and no queue."""
    slow = engine(3 * 18.6, 3 * 0.181, 3 * 0.05, 32)
    run = served(arrivals(1650, 1500), variants(slow=slow))
    assert shares(run)["l40s"] < 0.06
    late = [each for each in run.records if each.ttft_s is None or each.ttft_s > TTFT_S]
    assert len(late) < 0.01 * len(run.records)


def test_wrong_weights_do_not_overload_an_endpoint():
    """An endpoint that should get half of the requests can take a quarter: few of them wait."""
    groups = tuple(
        msgspec.structs.replace(each, weight=weight)
        for each, weight in zip(variants(), (1.0, 1.01), strict=True)
    )
    run = served(arrivals(1150, 1500), groups)
    assert 0.12 < shares(run)["l40s"] < 0.3
    late = [each for each in run.records if each.ttft_s is None or each.ttft_s > TTFT_S]
    assert len(late) < 0.06 * len(run.records)


def test_conversations_stay_where_their_cache_is():
    """Shares follow by new conversations: as many tokens come from caches as without weights."""
    fast, slow = (msgspec.structs.replace(each, prefix_cache=True) for each in (H100, L40S))
    groups = tuple(
        msgspec.structs.replace(each, weight=weight)
        for each, weight in zip(variants(fast, slow, (2, 2)), (0.8, 0.2), strict=True)
    )
    requests = Chat(requests=1200, rate=10).generate(random.Random(1))
    runs = [served(requests, groups, weighted=weighted) for weighted in (True, False)]
    with_weights, without = (
        sum(each.cached_tokens for each in run.records) / sum(each.prompt_tokens for each in run.records)
        for run in runs
    )
    assert shares(runs[0])["l40s"] == pytest.approx(0.2, abs=0.01)
    assert with_weights > without - 0.02


class Pool:
    """Endpoints with weights, behind one policy."""

    def __init__(self, *weights: float) -> None:
        self.loads = [
            fleet.EndpointState(routing.Endpoint(f"default/pod-{at}", "127.0.0.1", 8000 + at))
            for at in range(len(weights))
        ]
        self.policy = scheduling.Weighted(scheduling.PredictedFirstToken(PrefixIndex()))
        self.policy.weigh(dict(zip(self.loads, weights, strict=True)))
        self.rng = random.Random(1)
        self.now = 0.0

    def send(self, now: float, among: Sequence[fleet.EndpointState] = ()) -> fleet.Booking:
        asked = request()
        choice = self.policy.pick(asked, among or self.loads, now, self.rng)
        booking = choice.load.book(asked.prompt_tokens, 0, now)
        self.policy.booked(asked, choice, now)
        return booking

    def serve(self, count: int, among: Sequence[fleet.EndpointState] = ()) -> Counter[str]:
        """One request after another."""
        got: Counter[str] = Counter()
        for _ in range(count):
            self.now += 1.0
            booking = self.send(self.now, among)
            got[booking.load.endpoint.name[-1]] += 1
            booking.first_token(self.now + 0.1)
            booking.end(self.now + 0.5)
        return got


def test_idle_endpoints_get_their_exact_shares():
    """Each is within a request of its share."""
    got = Pool(1.0, 2.0, 7.0).serve(200)
    assert all(abs(got[name] - share) <= 1 for name, share in (("0", 20), ("1", 40), ("2", 140)))


def test_endpoints_of_one_weight_share_by_their_load():
    """They are a group, whose share grows with their number."""
    got = Pool(1.0, 1.0, 2.0).serve(400)
    assert abs(got["2"] - 200) <= 1
    assert got["0"] + got["1"] == 400 - got["2"]


def test_an_endpoint_that_returns_does_not_catch_up():
    """What others got in its absence is not its debt."""
    pool = Pool(1.0, 1.5)
    pool.serve(200, pool.loads[:1])
    got = pool.serve(50)
    assert abs(got["0"] - 20) <= 1


def test_an_endpoint_with_a_queue_is_left_out():
    """It does not answer its first request: after that, at most its next ones go there."""
    pool = Pool(1.0, 5.0)
    stuck = [pool.send(0.0, pool.loads[1:]) for _ in range(3)]
    got = Counter()
    for number in range(1, 40):
        booking = pool.send(float(number))
        got[booking.load] += 1
        if booking.load is pool.loads[0]:
            booking.first_token(number + 0.05)
            booking.end(number + 0.1)
    assert got[pool.loads[1]] == 0
    assert len(stuck) == 3


@given(
    weights=st.lists(st.sampled_from([0.001, 0.1, 0.5, 1.0, 2.0, 1000.0]), min_size=2, max_size=6),
    events=st.lists(st.tuples(st.integers(0, 63), st.floats(0, 2), st.booleans()), max_size=120),
)
def test_credits_are_bounded_and_add_up_to_nothing(weights, events):
    """Whoever can be picked, and however long requests take."""
    pool, now, open_requests = Pool(*weights), 0.0, []
    for mask, pause_s, ends in events:
        now += pause_s
        among = [load for at, load in enumerate(pool.loads) if mask >> at & 1]
        open_requests.append(pool.send(now, among))
        pool.policy.validate()
        if ends:
            open_requests.pop(0).end(now)
    assert all(each < MOST_BEHIND + 1 for each in pool.policy.statistics().values())


@given(weights=st.lists(st.floats(0.02, 50.0), min_size=2, max_size=5))
def test_nobody_starves(weights):
    """Each endpoint gets its share of the requests, up to one for each group."""
    pool, count = Pool(*weights), 300
    got = pool.serve(count)
    for at, weight in enumerate(weights):
        same = sum(each == weight for each in weights)
        if same == 1:
            assert abs(got[str(at)] - count * weight / sum(weights)) <= len(weights)


@pytest.mark.counts_calls
@pytest.mark.parametrize("most", [1.2, 1000.0])
def test_any_number_of_weights_costs_a_few_picks(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Pod of a tenant may have its own. Close ones count as one, so shares stay about right."""
    weights = [most ** (each / 199) for each in range(200)]
    pool = Pool(*weights)
    groups = pool.policy.statistics()
    assert len(groups) <= MOST_GROUPS
    picks = 0
    pick = pool.policy.policy.pick

    def counted(*arguments: object) -> object:
        nonlocal picks
        picks += 1
        return pick(*arguments)

    monkeypatch.setattr(pool.policy.policy, "pick", counted)
    pool.send(0.0)
    assert 0 < picks <= MOST_GROUPS
    pool.policy.validate()
    for load, weight in zip(pool.loads, weights, strict=True):
        assert pool.policy._weights[load] == pytest.approx(weight, rel=most ** (1 / MOST_GROUPS) - 1)


def test_without_weights_the_default_policy_picks_alone():
    """The same endpoints at the same times."""
    plain, weighted = Pool(1.0, 1.0, 1.0), Pool(1.0, 1.0, 1.0)
    plain.policy = scheduling.PredictedFirstToken(PrefixIndex())
    assert [plain.send(each / 10).load.endpoint for each in range(50)] == [
        weighted.send(each / 10).load.endpoint for each in range(50)
    ]


def test_an_explanation_has_the_weight():
    """With the share that follows from it, and how the group stands."""
    pool = Pool(2.0, 1.0, 1.0)
    assert pool.send(0.0).load is pool.loads[0]
    asked = request()
    choice = pool.policy.pick(asked, pool.loads, 1.0, pool.rng)
    said = pool.policy.reasons(asked, pool.loads, choice, 1.0)
    assert "weight 2: 50.0% of the requests for it, 0.5 requests ahead" in said[pool.loads[0]]
    assert (
        "weight 1: 50.0% of the requests for the 2 endpoints of this weight, 0.5 requests behind"
        in (said[pool.loads[1]])
    )
    assert all("first token in" in text for text in said.values())
