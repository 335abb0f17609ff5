"""The endpoint that owes the least gets the next request."""

import random
import sys
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing, scheduling
from headgate.fleet.ledger import DECODE_WORK_TOKENS

REQUEST = scheduling.Request(model="m", prompt_tokens=10)


def loads(*work: int) -> list[fleet.EndpointState]:
    made = []
    for place, tokens in enumerate(work):
        load = fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place))
        load.prefill_tokens = tokens
        made.append(load)
    return made


def pick(
    pool: list[fleet.EndpointState],
    now: float,
    rng: random.Random,
    tried: Sequence[fleet.EndpointState] = (),
    max_requests: int = sys.maxsize,
) -> fleet.EndpointState | None:
    choice = scheduling.pick(scheduling.LeastWork(), REQUEST, pool, now, rng, tried, max_requests)
    return choice.load if choice is not None else None


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_nobody_owes_less_than_the_pick(work, rng):
    """Of any fleet, one that owes the least is picked."""
    made = loads(*work)
    picked = pick(made, 0.0, rng)
    assert picked is not None
    assert picked.work_tokens == min(work)


@given(
    st.integers(1, 8),
    st.lists(st.integers(0, 4000), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_a_burst_spreads(endpoints, prompts, rng):
    """However large a burst, no endpoint owes more than one request's work above another."""
    made = loads(*[0] * endpoints)
    for tokens in prompts:
        picked = pick(made, 0.0, rng)
        assert picked is not None
        picked.book(tokens, 0, 0.0)
        work = [load.work_tokens for load in made]
        assert max(work) - min(work) <= max(prompts) + DECODE_WORK_TOKENS
    if len(set(prompts)) == 1:
        counts = [load.requests for load in made]
        assert max(counts) - min(counts) <= 1


def test_ties_are_fair():
    """Endpoints that owe the same are picked equally often: 4,000 picks over 4 stay within 4 sigma."""
    made, rng = loads(0, 9, 0, 0, 0), random.Random(7)
    counts = dict.fromkeys(made, 0)
    for _ in range(4000):
        counts[pick(made, 0.0, rng)] += 1
    assert counts.pop(made[1]) == 0
    assert all(abs(count - 1000) < 4 * (4000 * 0.25 * 0.75) ** 0.5 for count in counts.values())


def test_endpoint_that_failed_is_avoided_for_a_second():
    """It is passed over while another is left, even a busier one, and picked again afterwards."""
    made, rng = loads(0, 1000), random.Random(1)
    made[0].failed(10.0)
    assert pick(made, 10.9, rng) is made[1]
    assert pick(made, 11.0, rng) is made[0]


def test_endpoint_that_failed_is_used_when_it_is_the_only_one():
    """Of those that failed, the one whose failure is longest ago: a bad try beats none."""
    made, rng = loads(0, 0, 0), random.Random(1)
    for load, at in zip(made, (3.0, 1.0, 2.0), strict=True):
        load.failed(at)
    assert pick(made, 1.5, rng) is made[1]
    assert pick(made[::2], 1.5, rng) is made[2]
    assert pick(made[:1], 1.5, rng) is made[0]


def test_tried_endpoints_are_not_picked_again():
    """A retry goes elsewhere, if need be to one that failed; when all were tried there is none."""
    made, rng = loads(0, 5, 9), random.Random(1)
    assert pick(made, 0.0, rng, made[:1]) is made[1]
    made[2].failed(0.0)
    assert pick(made, 0.1, rng, made[:2]) is made[2]
    assert pick(made, 0.1, rng, made) is None
    assert pick([], 0.0, rng) is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
    st.randoms(use_true_random=False),
)
def test_full_endpoints_are_passed_over(endpoints, failed, tried, rng):
    """Whoever has all the requests that it may have gets no more; somebody with room does."""
    made = loads(*(work for work, _ in endpoints))
    for load, (_, requests) in zip(made, endpoints, strict=True):
        load.requests = requests
        load.prefill_tokens -= DECODE_WORK_TOKENS * requests
    for place in failed & set(range(len(made))):
        made[place].failed(0.0)
    tried_loads = [made[place] for place in tried if place < len(made)]
    picked = pick(made, 0.5, rng, tried_loads, max_requests=3)
    left = [load for load in made if load.requests < 3 and load not in tried_loads]
    well = [load for load in left if not load.failures]
    assert (picked is None) == (not left)
    if picked is not None:
        assert picked in left
        assert not well or picked.work_tokens == min(load.work_tokens for load in well)
