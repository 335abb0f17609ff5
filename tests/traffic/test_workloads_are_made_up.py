import itertools
import random
from collections import Counter

import pytest

from headgate.traffic import traces
from headgate.traffic.workloads import WORKLOADS


def made(name: str, seed: int = 1, **parameters: float) -> list[traces.TimedRequest]:
    return WORKLOADS[name](**parameters).generate(random.Random(seed))


@pytest.mark.parametrize("name", WORKLOADS)
def test_equal_seeds_make_equal_traffic(name):
    """And others make other traffic, of the same amount, in the order of time from about 0 on."""
    first = made(name)
    assert first == made(name)
    assert first != made(name, seed=2)
    times = [request.at_s for request in first]
    assert times == sorted(times)
    assert len(first) == WORKLOADS[name]().requests
    assert all(len(each.prefix) in (0, -(-each.prompt_tokens // 64)) for each in first)


@pytest.mark.parametrize("name", ["shared-prefix", "chat", "lora", "noisy-neighbour"])
def test_requests_come_at_the_rate_that_was_asked_for(name):
    """On average over a few thousand of them."""
    requests = made(name, requests=4000, rate=25.0)
    assert traces.mean_rate(requests[1000:]) == pytest.approx(25.0, rel=0.15)


def test_lengths_lie_around_their_mean():
    """With the deviation that was asked for, and all alike with none."""
    lengths = [each.output_tokens for each in made("burst", requests=4000, output_tokens=200, variation=0.5)]
    mean = sum(lengths) / len(lengths)
    assert mean == pytest.approx(200, rel=0.05)
    deviation = (sum((each - mean) ** 2 for each in lengths) / len(lengths)) ** 0.5
    assert deviation == pytest.approx(100, rel=0.15)
    assert {each.output_tokens for each in made("burst", variation=0, output_tokens=200)} == {200}


def test_questions_about_one_text_share_its_full_blocks():
    """And nothing behind them."""
    requests = made("shared-prefix", prefixes=3, prefix_tokens=1000, question_tokens=500)
    beginnings = Counter(each.prefix[:15] for each in requests)
    assert len(beginnings) == 3
    rest = [block for each in requests for block in each.prefix[15:]]
    assert len(rest) == len(set(rest))


def test_a_turn_of_a_chat_begins_with_the_turn_before():
    """All its full blocks, and more; conversations share the system prompt only, and are found as such."""
    requests = made("chat", requests=2000)
    of_session = itertools.groupby(
        sorted(requests, key=lambda each: (each.session, each.at_s)), lambda each: each.session
    )
    turns = {session: list(each) for session, each in of_session}
    for earlier, later in itertools.chain.from_iterable(map(itertools.pairwise, turns.values())):
        full = earlier.prompt_tokens // 64
        assert later.prefix[:full] == earlier.prefix[:full]
        assert later.prompt_tokens >= earlier.prompt_tokens + earlier.output_tokens
        assert later.at_s > earlier.at_s
    assert traces.ideal_hit_rate(requests) > 0.5


def test_a_burst_arrives_at_one_moment():
    """800 at once; further bursts follow so that the rate is kept."""
    assert {each.at_s for each in made("burst")} == {0.0}
    assert Counter(each.at_s for each in made("burst", requests=250, burst=100, rate=10)) == {
        0: 100,
        10: 100,
        20: 50,
    }


def test_adapters_are_asked_for_by_their_classes():
    """Five get 60 % of all requests, five 30 %, five 10 %."""
    asked = Counter(each.adapter for each in made("lora", requests=6000))
    classes = [sum(asked[f"lora-{n}"] for n in range(first, 15, 3)) / 6000 for first in range(3)]
    assert classes == pytest.approx([0.6, 0.3, 0.1], abs=0.03)


def test_some_prompts_are_documents():
    """A fifth of them, each document asked about more than once."""
    requests = made("long-context", documents=5)
    long = [each for each in requests if each.prompt_tokens > 10_000]
    assert len(long) / len(requests) == pytest.approx(0.2, abs=0.05)
    assert len({each.prefix[0] for each in long}) == 5


def test_the_noisy_tenant_sends_in_bursts():
    """Half of all requests in a sixth of the time; the others send evenly."""
    requests = made("noisy-neighbour", requests=3000)
    noisy = [each for each in requests if each.tenant == "noisy"]
    assert len(noisy) == 1500
    assert all(each.at_s % 30 <= 5.001 for each in noisy)
    assert {each.tenant for each in requests} == {"noisy", *(f"quiet-{n}" for n in range(4))}
