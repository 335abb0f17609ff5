"""Kthena's plugins give the numbers of its formulas (S2 to S5, S7, S11)."""

import random

import pytest
from some_endpoints import Caches, cycle, endpoint, endpoints, request

from headgate.scheduling.plugins import kthena


def scores(scorer, pool, asked=None, caches=None) -> list[float]:
    return list(scorer.scores(cycle(asked, caches), pool))


def in_flight(*counts: tuple[int, int]):
    return endpoints(*({"requests": requests, "running": running} for requests, running in counts))


def test_requests_in_flight_count_and_those_that_wait_a_hundred_times():
    """S2, S3: 1/2/3, all running, score 66/33/0; (5, 5), (5, 0), (0, 0) score 99/0/100."""
    scorer = kthena.LeastRequest()
    assert scores(scorer, in_flight((1, 1), (2, 2), (3, 3))) == [66, 33, 0]
    assert scores(scorer, in_flight((0, 0), (10, 10), (5, 5))) == [100, 0, 50]
    assert scores(scorer, in_flight((5, 5), (5, 0), (0, 0))) == [99, 0, 100]
    assert scores(scorer, in_flight((0, 0), (0, 0))) == [100, 100]


def test_an_endpoint_with_ten_waiting_is_left_out():
    """S4, S14: at maxWaitingRequests nobody is left, which passes by itself; below it, those are."""
    scorer = kthena.LeastRequest()
    assert scorer.keep(cycle(), endpoints({"waiting": 10}, {"waiting": 10})) == []
    assert scorer.keep(cycle(), endpoints({"waiting": 20})) == []
    assert scorer.about_load
    pool = endpoints({"waiting": 9}, {"waiting": 10})
    assert scorer.keep(cycle(), pool) == pool[:1]
    patient = kthena.LeastRequest(kthena.LeastRequestParameters(max_waiting_requests=11))
    assert patient.keep(cycle(), pool) == pool


def test_latencies_are_brought_to_a_hundred_and_blended():
    """S5: TTFT 10/20 with equal TPOT score 100/50; who tells nothing gets 50 and is no part of the range."""
    scorer = kthena.LeastLatency()
    pool = endpoints({"ttft_s": 10, "tpot_s": 1}, {"ttft_s": 20, "tpot_s": 1}, {"ttft_s": 900}, {})
    assert scores(scorer, pool) == [100, 50, 50, 50]
    assert scores(scorer, pool[2:]) == [50, 50]
    first = kthena.LeastLatency(kthena.LeastLatencyParameters(factor=1.0))
    assert scores(first, pool[:2]) == [100, 0]


def test_what_is_free_of_the_cache_in_percent():
    """S7: usage .25 scores 75."""
    assert scores(kthena.GpuUsage(), [endpoint(kv=0.25)]) == [75]


def test_blocks_count_from_the_front():
    """S11: all four, the first alone, and the third alone score 100, 25, 0."""
    pool = endpoints({}, {}, {})
    caches, asked = Caches(pool, [4, 1, 0]), request(blocks=4)
    assert scores(kthena.KvCacheAware(), pool, asked, caches) == [100, 25, 0]
    assert scores(kthena.KvCacheAware(), pool, request(), caches) == [0, 0, 0]


def test_only_the_best_matches_of_a_prefix_count():
    """Of six endpoints the five with the longest matches have a score."""
    pool = endpoints(*[{}] * 6)
    caches, asked = Caches(pool, [1, 2, 4, 4, 3, 2]), request(blocks=4)
    assert scores(kthena.PrefixCache(), pool, asked, caches) == [0, 50, 100, 100, 75, 50]
    two = kthena.PrefixCache(kthena.PrefixCacheParameters(top_k_matches=2))
    assert scores(two, pool, asked, caches) == [0, 0, 100, 100, 0, 0]


def test_adapters_stay_with_engines_that_list_them():
    """Who lists other models is left out; who gives no list stays, as nothing is known."""
    pool = endpoints({"models": frozenset({"base", "a"})}, {"models": frozenset({"base"})}, {})
    assert kthena.LoraAffinity().keep(cycle(request(adapter="a")), pool) == [pool[0], pool[2]]
    assert kthena.LoraAffinity().keep(cycle(request(model="base")), pool) == pool


def test_random_scores_cover_the_range():
    """Whole numbers from 0 to 100, by the given chance."""
    asked = cycle()
    asked.rng = random.Random(5)
    drawn = [kthena.Random().scores(asked, endpoints({}, {})) for _ in range(400)]
    flat = [score for pair in drawn for score in pair]
    assert (min(flat), max(flat)) == (0, 100)
    assert sum(flat) / len(flat) == pytest.approx(50, abs=5)
