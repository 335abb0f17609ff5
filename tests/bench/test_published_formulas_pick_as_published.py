"""The formulas of other routers, by small examples."""

import random

import pytest

from contest.policies import Page, Setup, kthena, llm_d, preble, smg
from headgate import routing
from headgate.fleet import EndpointState, EngineReading
from headgate.scheduling import Choice, Request
from headgate.traffic.traces import TimedRequest

SETUP = Setup(replicas=3, cache_blocks=1000, prefill_tokens_per_s=16_000.0)


@pytest.fixture
def loads():
    return [EndpointState(routing.Endpoint(name, "127.0.0.1", 8000)) for name in "abc"]


def prompt(*prefix: int) -> Request:
    return Request(model="m", prompt_tokens=512 * len(prefix), prefix=prefix, block_tokens=512)


def pick(policy, request: Request, loads, now: float = 0.0) -> str:
    return policy.pick(request, loads, now, random.Random(1)).load.endpoint.name


def send(policy, request: Request, load: EndpointState, now: float = 0.0) -> None:
    """As if it had picked that endpoint."""
    cached = request.prompt_tokens - policy.uncached_tokens(request, load, now)
    load.book(request.prompt_tokens - cached, 0, now)
    policy.booked(request, Choice(load=load, cached_tokens=cached), now)


def read(load: EndpointState, **figures) -> None:
    load.read(EngineReading(at=1.0, **figures))


def test_llm_d_sticks_to_the_cache_until_it_is_18_s_behind(loads):
    """Endpoints with four fifths of a prompt are asked alone, whatever they have to do within that time."""
    policy = llm_d.Affinity(SETUP)
    conversation = tuple(range(10))
    send(policy, prompt(*conversation), loads[1])
    for at in range(27):
        send(policy, prompt(*range(1000 * at + 500, 1000 * at + 520)), loads[1])
    assert loads[1].prefill_tokens == 5120 + 27 * 10_240
    assert pick(policy, prompt(*conversation, 10, 11), loads) == "b"
    assert pick(policy, prompt(*conversation, *range(10, 13)), loads) != "b"
    send(policy, prompt(*range(90_000, 90_030)), loads[1])
    assert pick(policy, prompt(*conversation), loads) != "b"


def test_llm_d_takes_the_fewest_uncached_tokens(loads):
    """Those in flight and those of the prompt together."""
    policy = llm_d.Affinity(SETUP)
    send(policy, prompt(1, 2), loads[0])
    send(policy, prompt(7, 8, 9, 10, 11, 12, 13), loads[1])
    send(policy, prompt(5, 6), loads[2])
    assert pick(policy, prompt(7, 8, 9, 10, 20, 21, 22), loads) in "ac"
    assert pick(policy, prompt(1, 2, 3, 4, 5, 6), loads) == "a"


def test_llm_d_weighs_prefix_queue_and_cache(loads):
    """3 to 2 to 2, of what engines tell."""
    policy = llm_d.Weighted(SETUP)
    policy.beliefs.stored((1, 2), loads[0])
    for load, waiting, usage in zip(loads, (1, 0, 2), (0.0, 0.9, 0.0), strict=True):
        read(load, waiting=waiting, running=3, kv_usage=usage)
    assert pick(policy, prompt(1, 2), loads) == "a"  # 3 + 1 + 2 to 0 + 2 + 0.2 to 0 + 0 + 2
    assert pick(policy, prompt(8, 9), loads) == "a"  # 0 + 1 + 2
    read(loads[0], waiting=2, running=3, kv_usage=0.5)
    assert pick(policy, prompt(8, 9), loads) == "b"  # 0 + 0 + 1 to 0 + 2 + 0.2


@pytest.mark.parametrize(
    ("in_flight", "running", "scores"),
    [
        ((0, 10, 5), (0, 10, 5), [100, 0, 50]),
        ((1, 2, 3), (1, 2, 3), [66, 33, 0]),
        ((5, 5, 0), (5, 0, 0), [99, 0, 100]),
    ],
)
def test_kthena_counts_waiting_a_hundred_times(loads, in_flight, running, scores):
    """The worked examples of its documentation, where all but those that run wait."""
    for load, count, in_batch in zip(loads, in_flight, running, strict=True):
        for _ in range(count):
            load.book(100, 0, 0.0)
        read(load, waiting=0, running=in_batch)
    assert list(kthena.least_request(loads).values()) == scores


def test_kthena_compares_times_of_the_last_second(loads):
    """Half TTFT, half TPOT; an engine that was idle is in the middle."""
    read(loads[0], ttft_s=0.1, ttft_at=1.0, tpot_s=0.02, tpot_at=1.0)
    read(loads[1], ttft_s=0.3, ttft_at=1.0, tpot_s=0.02, tpot_at=1.0)
    read(loads[2], ttft_s=9.0, ttft_at=0.0, tpot_s=0.5, tpot_at=0.0)
    assert list(kthena.least_latency(loads).values()) == [100, 50, 50]


def test_kthena_passes_over_engines_with_ten_waiting(loads):
    """If there are others; it looks at the first 2,048 tokens of a prompt."""
    policy = kthena.DefaultPlugins(SETUP)
    policy.beliefs.booked((1, 2, 3, 4, 5, 6), loads[0], 0.0)
    policy.beliefs.booked((1, 2, 3, 4, 9, 9), loads[1], 0.0)
    read(loads[0], waiting=10, running=5)
    assert policy.held(prompt(1, 2, 3, 4, 5, 6), loads[0], 0.0) == 4
    assert pick(policy, prompt(1, 2, 3, 4, 5, 6), loads) == "b"
    for load in loads:
        read(load, waiting=10, running=5)
    assert pick(policy, prompt(1, 2, 3, 4, 5, 6), loads) in "ab"


def test_smg_adds_what_was_sent_since_the_poll(loads):
    """Until each was polled, it counts requests."""
    policy = smg.LeastLoad(SETUP)
    loads[0].book(100, 0, 0.0)
    assert pick(policy, prompt(1), loads) in "bc"
    for load, waiting_tokens, usage in zip(loads, (0, 4000, 0), (0.0, 0.0, 0.95), strict=True):
        read(load, waiting=0, running=1, kv_usage=usage)
        policy.scraped(load, Page(lambda tokens=waiting_tokens: tokens, 0.0), 10.0)
    assert pick(policy, prompt(1), loads, 11.0) == "a"  # 0 s to 2 s to 2.85 s
    send(policy, prompt(*range(10)), loads[0], 11.0)
    assert pick(policy, prompt(1), loads, 11.0) == "b"  # 2.56 s to 2 s
    policy.scraped(loads[0], Page(lambda: 5120, 40_960.0), 20.0)
    assert pick(policy, prompt(1), loads, 20.0) == "a"  # 1.25 s, as it generates 4,096 tokens a second


def test_preble_follows_a_match_that_is_most_of_a_prompt(loads):
    """Unless its engine has half as much again to do as the lightest; else the least cost decides."""
    policy = preble.E2(SETUP)
    send(policy, prompt(*range(10)), loads[0])
    send(policy, prompt(*range(100, 110)), loads[1])
    send(policy, prompt(*range(200, 210)), loads[2])
    assert pick(policy, prompt(*range(100, 110), 1, 2), loads) == "b"
    send(policy, prompt(*range(300, 305)), loads[1])
    assert pick(policy, prompt(*range(100, 110), 1, 2), loads) in "ac"
    assert pick(policy, prompt(*range(100, 103), *range(400, 410)), loads) in "ac"


def test_preble_forgets_load_after_three_minutes(loads):
    """What is in flight counts as long as it is."""
    policy = preble.E2(SETUP)
    booked = TimedRequest(at_s=0.0, prompt_tokens=51_200, output_tokens=11, prefix=(), block_tokens=512)
    booking = loads[0].book(51_200, 0, 0.0)
    request = Request(model="m", prompt_tokens=51_200, prefix=tuple(range(100)), block_tokens=512)
    policy.booked(request, Choice(load=loads[0], cached_tokens=0), 0.0)
    policy.first_token(booked, loads[0], 4.0)
    booking.first_token(4.0)
    booking.end(5.0)
    policy.ended(booked, loads[0], 5.0)
    assert {pick(policy, prompt(1000 + at), loads, 179.0) for at in range(20)} <= {"b", "c"}
    assert "a" in {pick(policy, prompt(1000 + at), loads, 181.0) for at in range(20)}
