"""What clients in closed loops get through a queue, after a quiet time that taught wrong rates."""

import pytest

import closed_loops

LEAST_SHARE = 0.98
MIXES = {
    "whole answers": closed_loops.Clients(64, 60, 32, False),
    "many clients": closed_loops.Clients(400, 60, 32, False),
    "streams": closed_loops.Clients(64, 60, 32),
    "one token": closed_loops.Clients(64, 7, 1, False),
    "embeddings": closed_loops.Clients(64, 300, 1, False),
}


@pytest.mark.parametrize("scrape_s", [0.1, 1.0, 0.0], ids=["read often", "read", "no metrics page"])
@pytest.mark.parametrize("name", MIXES)
def test_a_queue_costs_no_throughput(name, scrape_s):
    """Of four engines, whatever they are asked for."""
    mix = closed_loops.Mix(name, (MIXES[name],), 30.0, scrape_s)
    without, queued = closed_loops.served(mix, None), closed_loops.served(mix, closed_loops.ENDLESS)
    assert queued.per_s >= LEAST_SHARE * without.per_s


def test_what_is_critical_overtakes_in_the_queue():
    """Where prefill is what there is too little of, and no answer is streamed."""
    mix = closed_loops.Mix("one token", (closed_loops.Clients(250, 60, 1, False),))
    without = closed_loops.served(mix, None, engines=1)
    queued = closed_loops.served(mix, closed_loops.ENDLESS, engines=1)
    assert queued.critical_p50_s < without.critical_p50_s / 3


def test_the_same_seed_is_the_same_run():
    """And another is not."""
    mix = closed_loops.Mix("streams", (MIXES["streams"],), 10.0)
    runs = [closed_loops.served(mix, closed_loops.ENDLESS, engines=1, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
