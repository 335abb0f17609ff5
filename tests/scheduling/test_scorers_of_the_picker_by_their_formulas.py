"""Each scorer of the endpoint picker gives the numbers of its published formula (S1, S2, S5 to S9, S11)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_endpoints import Caches, cycle, endpoint, endpoints, request

from headgate.scheduling import plugins
from headgate.scheduling.plugins import adapter_scorers, affinity, load_scorers, prefix_scorers
from headgate.scheduling.plugins.load_scorers import (
    ActiveRequestParameters,
    ActiveRequestScorer,
    KvCacheUtilizationScorer,
    LoadAwareScorer,
    QueueScorer,
    RunningRequestsScorer,
    TokenLoadScorer,
)
from headgate.scheduling.plugins.prefix_scorers import (
    NoHitLruScorer,
    PrefixCacheParameters,
    PrefixCacheScorer,
)
from headgate.scheduling.profiles import Composed, Profile


def scores(scorer: plugins.Scorer, pool, asked=None, caches=None) -> list[float]:
    return list(scorer.scores(cycle(asked, caches), pool))


def test_the_shortest_queue_is_best_and_equal_ones_are_all_best():
    """S1, S2: 0, 5, 10 waiting score 1, .5, 0; 3, 3 score 1, 1."""
    assert scores(QueueScorer(), endpoints(*({"waiting": q} for q in (0, 5, 10)))) == [1.0, 0.5, 0.0]
    assert scores(QueueScorer(), endpoints({"waiting": 3}, {"waiting": 3})) == [1.0, 1.0]
    assert scores(RunningRequestsScorer(), endpoints({"running": 8}, {"running": 4})) == [0.0, 1.0]


def test_what_was_sent_since_the_reading_is_added_to_it():
    """A burst between two readings does not herd; what has ended since is taken off, down to 0."""
    pool = endpoints({"waiting": 2, "running": 4}, {"waiting": 2, "running": 4, "requests": 9})
    for _ in range(6):
        pool[0].book(10, 0, 0.0)
    pool[1].requests -= 3
    assert plugins.signals.waiting(pool) == [8, 0]
    assert plugins.signals.running(pool) == [10, 1]
    assert scores(QueueScorer(), pool) == [0.0, 1.0]


def test_an_engine_that_tells_nothing_is_judged_by_the_ledger_and_the_others():
    """Its queue are its requests without a token, its batch all; its cache is as full as the others'."""
    silent = endpoint(0)
    silent.read(None)
    for _ in range(3):
        silent.book(10, 0, 0.0)
    silent.decoding = 1
    pool = [silent, endpoint(1, waiting=5, running=5, kv=0.2), endpoint(2, waiting=5, running=5, kv=0.6)]
    assert plugins.signals.waiting(pool) == [2, 5, 5]
    assert plugins.signals.running(pool) == [3, 5, 5]
    assert plugins.signals.kv_usage(pool) == pytest.approx([0.4, 0.2, 0.6])
    assert plugins.signals.kv_usage([silent]) == [0.0]


def test_free_cache_and_short_queues_on_an_absolute_scale():
    """1 - usage; and .5 for an empty queue, down to 0 at the threshold."""
    assert scores(KvCacheUtilizationScorer(), [endpoint(kv=0.25)]) == [0.75]
    pool = endpoints({"waiting": 0}, {"waiting": 64}, {"waiting": 500})
    assert scores(LoadAwareScorer(), pool) == [0.5, 0.25, 0.0]


def test_an_adapter_goes_where_it_is_active_or_fits():
    """S5: active 1, room .8, waiting .6, full 0."""
    pool = endpoints(
        {"active": "a b", "max_adapters": 2},
        {"active": "b", "max_adapters": 2},
        {"active": "b c", "queued": "a", "max_adapters": 2},
        {"active": "b c", "max_adapters": 2},
    )
    assert scores(adapter_scorers.LoraAffinityScorer(), pool, request(adapter="a")) == [1.0, 0.8, 0.6, 0.0]


def test_active_requests_are_scored_against_the_busiest():
    """S6: 0, 2, 4 score 1, .5, 0; an idle threshold makes the few equal, a busy score leaves a gap."""
    pool = endpoints({"requests": 0}, {"requests": 2}, {"requests": 4})
    assert scores(ActiveRequestScorer(), pool) == [1.0, 0.5, 0.0]
    gap = ActiveRequestScorer(ActiveRequestParameters(idle_threshold=1, max_busy_score=0.5))
    assert scores(gap, pool) == [1.0, 0.25, 0.0]


def test_tokens_in_flight_are_scored_against_four_million():
    """S7: 0, 2,097,152 and 5,000,000 tokens score 1, .5, 0; cached ones count not."""
    pool = endpoints({"tokens": 0}, {"tokens": 2_097_152}, {"tokens": 5_000_000})
    assert scores(TokenLoadScorer(), pool, request(0)) == [1.0, 0.5, 0.0]
    warm = endpoints({}, {})
    asked = request(4_194_304, blocks=4)
    assert scores(TokenLoadScorer(), warm, asked, Caches(warm, [0, 2])) == [0.0, 0.5]


def test_a_matched_prefix_counts_by_its_share_and_long_ones_more():
    """S8: 3 of 4 blocks score .75; with a length weight (min(1, tokens / 8192))^2 is added, to at most 1."""
    pool = endpoints({}, {}, {})
    caches, asked = Caches(pool, [3, 1, 4]), request(8192, blocks=4)
    assert scores(PrefixCacheScorer(), pool, asked, caches) == [0.75, 0.25, 1.0]
    longer = PrefixCacheScorer(PrefixCacheParameters(match_length_weight=0.4))
    assert scores(longer, pool, asked, caches) == pytest.approx([0.975, 0.275, 1.0])
    older = PrefixCacheScorer(PrefixCacheParameters(prefix_length_weight=0.5, max_model_len=16384))
    assert scores(older, pool, asked, caches) == pytest.approx([0.4453125, 0.1328125, 0.625])
    assert scores(PrefixCacheScorer(), pool, request(10), caches) == [0.0, 0.0, 0.0]


def test_exact_matches_count_by_the_worth_of_their_tiers():
    """S12: 3.8 of the best 4 blocks score .95; nothing held anywhere is 0 for all."""

    class Tiers(Caches):
        def weighed(self, prefix, loads):
            return [3.8 if count == 3 else float(count) for count in self.matched(prefix, loads)]

    pool, scorer = endpoints({}, {}, {}), prefix_scorers.PrecisePrefixCacheScorer()
    asked = request(blocks=4)
    assert scores(scorer, pool, asked, Tiers(pool, [3, 4, 0])) == [0.95, 1.0, 0.0]
    assert scores(scorer, pool, asked, Tiers(pool, [0, 0, 0])) == [0.0, 0.0, 0.0]


def test_prompts_that_no_cache_holds_go_round():
    """S9: never used first, in the pool's order; once used, last; a warm prompt is .5 for all."""
    pool, scorer = endpoints({}, {}, {}), NoHitLruScorer()
    cold = cycle(request(64, blocks=4), Caches(pool, [0, 0, 0]))
    assert list(scorer.scores(cold, pool)) == [1.0, 0.5, 0.0]
    scorer.booked(cold, pool[0])
    assert list(scorer.scores(cold, pool)) == [0.0, 1.0, 0.5]
    warm = cycle(request(64, blocks=4), Caches(pool, [0, 2, 0]))
    assert list(scorer.scores(warm, pool)) == [0.5, 0.5, 0.5]
    scorer.booked(warm, pool[1])
    assert list(scorer.scores(cold, pool)) == [0.0, 1.0, 0.5]


def test_the_default_weights_prefer_a_cached_prompt_to_an_empty_queue():
    """S11: 2 x 1 + 2 x .5 + 0 = 3 against 0 + 2 x .5 + 3 = 4."""
    pool = endpoints({"waiting": 0, "kv": 0.5}, {"waiting": 10, "kv": 0.5})
    caches, asked = Caches(pool, [0, 4]), request(blocks=4)
    profile = Profile(
        scorers=[(QueueScorer(), 2.0), (KvCacheUtilizationScorer(), 2.0), (PrefixCacheScorer(), 3.0)]
    )
    assert list(profile.totals(cycle(asked, caches), pool)) == [3.0, 4.0]
    policy = Composed(profile, caches)
    choice = policy.pick(asked, pool, 0.0, random.Random(1))
    assert choice is not None
    assert (choice.load, choice.cached_tokens) == (pool[1], 100)
    why = policy.reasons(asked, pool, choice, 0.0)
    assert why[pool[0]] == (
        "3 = queue-scorer 1 x 2 + kv-cache-utilization-scorer 0.5 x 2 + prefix-cache-scorer 0 x 3"
    )


def test_prompts_go_to_the_endpoints_of_their_length():
    """Inside by the width and the room above, outside by the distance; without a label .5."""
    label = "llm-d.ai/context-length-range"
    pool = endpoints(
        *({"labels": {label: text}} for text in ("0-2000", "5000-9000", "1000-1000", "nonsense")), {}
    )
    scorer = affinity.ContextLengthAware()
    expected = [0.3 + 0.7 * (0.7 / 1.2 + 0.3 * 0.5), 0.3 / 5.0, 1.0, 0.0, 0.5]
    assert scores(scorer, pool, request(1000)) == pytest.approx(expected)
    assert scorer.keep(cycle(request(1000)), pool) is pool
    strict = affinity.ContextLengthAware(affinity.ContextLengthParameters(enable_filtering=True))
    assert strict.keep(cycle(request(1000)), pool) == [pool[0], pool[2], pool[4]]


def test_a_header_prefers_the_pods_whose_label_it_names():
    """1 where header and label agree; the answer says the label of whoever got the request."""
    pool = endpoints({"labels": {"zone": "a"}}, {"labels": {"zone": "b"}}, {})
    scorer = affinity.HeaderLabelAffinityScorer(
        affinity.HeaderLabelParameters(header_name="X-Zone", label_key="zone")
    )
    assert scores(scorer, pool, request(x_zone="b")) == [0.0, 1.0, 0.0]
    assert scores(scorer, pool, request()) == [0.0, 0.0, 0.0]
    assert scorer.mark(request(), pool[0]) == (b"x-zone", b"a")
    assert scorer.mark(request(), pool[2]) is None


def test_nearness_to_the_peer_counts_by_what_is_shared():
    """Host 1, rack .2, zone .05, region .02, nothing 0; and the filter keeps the near, or all if none is."""
    names = ("kubernetes.io/hostname", *(f"topology.kubernetes.io/{at}" for at in ("rack", "zone", "region")))

    def at(*values: str) -> dict[str, str]:
        return dict(zip(names, values, strict=True))

    peer = endpoint(9, labels=at("h1", "r1", "z1", "g1"))
    places = (
        ("h1", "r1", "z1", "g1"),
        ("h2", "r1", "z1", "g1"),
        ("h3", "r2", "z1", "g1"),
        ("h4", "r3", "z2", "g1"),
    )
    pool = endpoints(*({"labels": at(*place)} for place in places), {})
    asked = cycle(peer=peer)
    assert list(affinity.TopologyAffinityScorer().scores(asked, pool)) == [1.0, 0.2, 0.05, 0.02, 0.0]
    assert list(affinity.TopologyAffinityScorer().scores(cycle(), pool)) == [0.0] * 5
    near = affinity.TopologyAffinityFilter(affinity.TopologyFilterParameters(min_affinity="rack"))
    assert near.keep(asked, pool) == pool[:2]
    assert near.keep(asked, pool[2:]) == pool[2:]
    assert near.keep(cycle(), pool) == pool


figures = st.fixed_dictionaries(
    {},
    optional={
        "waiting": st.integers(0, 500),
        "running": st.integers(0, 500),
        "kv": st.floats(0, 1),
        "requests": st.integers(0, 200),
        "tokens": st.integers(0, 10_000_000),
        "max_adapters": st.integers(0, 3),
    },
)


@given(st.lists(figures, min_size=1, max_size=6), st.integers(0, 9), st.data())
def test_scores_are_from_0_to_1_whatever_the_engines_say(given_figures, blocks, data):
    """No scorer leaves the range, so that weights mean what they say."""
    pool = endpoints(*given_figures)
    held = data.draw(st.lists(st.integers(0, blocks), min_size=len(pool), max_size=len(pool)))
    families = (load_scorers, adapter_scorers, prefix_scorers, affinity)
    kinds = {kind for family in families for kind in vars(family).values() if isinstance(kind, type)}
    for kind in kinds:
        if issubclass(kind, plugins.Scorer) and kind.kind and kind is not affinity.HeaderLabelAffinityScorer:
            found = kind().scores(cycle(request(1000, blocks=blocks), Caches(pool, held)), pool)
            assert len(found) == len(pool)
            assert all(0.0 <= score <= 1.0 for score in found), kind.kind
