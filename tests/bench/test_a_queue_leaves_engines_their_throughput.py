"""What clients in closed loops get through a queue, after a quiet time that taught wrong rates."""

import pytest

import closed_loops
from headgate.simulator.model import PROFILES

MIN_SHARE = closed_loops.MIN_SHARE
MIXES = {
    "whole answers": closed_loops.Clients(64, 60, 32, False),
    "many clients": closed_loops.Clients(400, 60, 32, False),
    "streams": closed_loops.Clients(64, 60, 32),
    "one token": closed_loops.Clients(64, 7, 1, False),
    "embeddings": closed_loops.Clients(64, 300, 1, False),
}


@pytest.mark.whole
@pytest.mark.parametrize("scrape_s", [0.1, 1.0, 0.0], ids=["read often", "read", "no metrics page"])
@pytest.mark.parametrize("name", MIXES)
def test_a_queue_costs_no_throughput(name, scrape_s):
    """Of four engines, whatever they are asked for."""
    mix = closed_loops.Mix(name, (MIXES[name],), 30.0, scrape_s)
    without, queued = _served(mix)
    assert queued.share_of(without) >= MIN_SHARE


def test_a_queue_costs_no_throughput_where_a_step_begins_many_short_prompts():
    """What each step takes anyway is little of it as long as many wait: a queue of 0.2 s would cost 4 %."""
    slow = PROFILES["70b-8xh100"].config
    mix = closed_loops.Mix("short streams", (closed_loops.Clients(200, 60, 8),), 60.0, engine=slow)
    without, queued = _served(mix)
    assert queued.share_of(without) >= MIN_SHARE


@pytest.mark.parametrize("priority", [0, -1], ids=["default", "sheddable"])
@pytest.mark.parametrize("scrape_s", [0.5, 0.0], ids=["read", "no metrics page"])
def test_a_queue_costs_a_mix_no_throughput(scrape_s, priority):
    """Of classification, embeddings, whole answers, streams, and long prompts."""
    mix = closed_loops.Mix("five kinds", closed_loops.together(20, priority), 120.0, scrape_s)
    without, queued = _served(mix, engines=1)
    assert closed_loops.share(mix, queued, without) >= MIN_SHARE


@pytest.mark.parametrize("clients", [MIXES["whole answers"], MIXES["one token"], MIXES["streams"]])
def test_a_queue_costs_no_throughput_where_all_is_sheddable(clients):
    """It is held back for what matters more, of which there is nothing."""
    mix = closed_loops.Mix("sheddable", (clients._replace(priority=-1),))
    without, queued = _served(mix)
    assert queued.share_of(without) >= MIN_SHARE


def test_the_lower_share_of_requests_and_tokens_counts():
    """So that more short answers make up for no long ones."""
    served = closed_loops.Served(per_s=10.0, tokens_per_s=100.0)
    assert closed_loops.Served(per_s=12.0, tokens_per_s=90.0).share_of(served) == 0.9
    assert closed_loops.Served(per_s=8.0, tokens_per_s=120.0).share_of(served) == 0.8


def test_of_unlike_requests_the_work_counts():
    """One with a prompt of 1,500 is as much as many of one token."""
    mix = closed_loops.Mix("unlike", closed_loops.together(1))
    long_s, short_s = (closed_loops.work_s(*tokens, mix.engine) for tokens in ((1500, 32), (7, 1)))
    assert long_s > 15 * short_s
    fewer = closed_loops.Served(per_s=1.0, tokens_per_s=1532.0, work_s_per_s=long_s)
    more = closed_loops.Served(per_s=21.0, tokens_per_s=168.0, work_s_per_s=21 * short_s)
    assert closed_loops.share(mix, more, fewer) == pytest.approx(21 * short_s / long_s)


def test_what_is_critical_overtakes_in_the_queue():
    """Where prefill is what there is too little of, and no answer is streamed."""
    mix = closed_loops.Mix("one token", (closed_loops.Clients(250, 60, 1, False),))
    without, queued = _served(mix, engines=1)
    assert queued.critical_p50_s < without.critical_p50_s / 3


def test_the_same_seed_is_the_same_run():
    """And another is not."""
    mix = closed_loops.Mix("streams", (MIXES["streams"],), 10.0)
    runs = [closed_loops.served(mix, closed_loops.ENDLESS, engines=1, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def _served(mix, engines=closed_loops.ENGINES):
    return [closed_loops.served(mix, flow, engines=engines) for flow in (None, closed_loops.ENDLESS)]
