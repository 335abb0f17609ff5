"""Filters by labels, figures, caches and objectives."""

import pytest
from some_endpoints import Caches, cycle, endpoints, request

from headgate.scheduling.plugins import attributes, label_filters, latency
from headgate.scheduling.plugins.attributes import (
    AttributeFilterParameters,
    AttributeScorerParameters,
    Condition,
    EndpointAttributeFilter,
    EndpointAttributeScorer,
    FilterAlgorithm,
    FixedRange,
    Normalization,
    ScorerAlgorithm,
    UtilizationFilter,
    UtilizationParameters,
)
from headgate.scheduling.plugins.label_filters import Requirement, SelectorParameters
from headgate.scheduling.plugins.latency import (
    LatencyParameters,
    LatencyScorer,
    PrefixAffinityParameters,
    PrefixCacheAffinityFilter,
    SloHeadroomTierFilter,
    SloTierParameters,
)


def kept(each, pool, asked=None, caches=None, **about) -> list[int]:
    return [pool.index(load) for load in each.keep(cycle(asked, caches, **about), pool)]


def labelled(*given: str):
    return endpoints(*({"labels": dict(pair.split("=") for pair in text.split())} for text in given))


def test_a_label_selector_keeps_what_kubernetes_would():
    """Labels and all four operators; NotIn and DoesNotExist take Pods without the label."""
    pool = labelled("gpu=h100 tier=a", "gpu=h100", "gpu=l4 tier=a", "")

    def selected(**said) -> list[int]:
        return kept(label_filters.LabelSelectorFilter(SelectorParameters(**said)), pool)

    assert selected(match_labels={"gpu": "h100"}) == [0, 1]
    assert selected(match_labels={"gpu": "h100", "tier": "a"}) == [0]
    one = Requirement(key="gpu", operator="In", values=("l4", "h100"))
    assert selected(match_expressions=(one, Requirement(key="tier", operator="Exists"))) == [0, 2]
    assert selected(match_expressions=(Requirement(key="gpu", operator="NotIn", values=("h100",)),)) == [2, 3]
    assert selected(match_expressions=(Requirement(key="tier", operator="DoesNotExist"),)) == [1, 3]
    old = label_filters.ByLabelFilter(
        label_filters.ByLabelParameters(label="gpu", valid_values=("l4",), allows_no_label=True)
    )
    assert kept(old, pool) == [2, 3]
    with pytest.raises(ValueError, match="In needs values"):
        Requirement(key="a", operator="In")


def test_roles_are_kept_by_their_label():
    """Pods without a role may decode, and nothing else."""
    roles = (
        "encode",
        "prefill",
        "decode",
        "encode-prefill",
        "prefill-decode",
        "encode-prefill-decode",
        "both",
    )
    pool = [*labelled(*(f"llm-d.ai/role={role}" for role in roles), "")]
    assert kept(label_filters.EncodeFilter(), pool) == [0, 3, 5]
    assert kept(label_filters.PrefillFilter(), pool) == [1, 3, 4, 5, 6]
    assert kept(label_filters.DecodeFilter(), pool) == [2, 4, 5, 6, 7]


def test_endpoints_over_a_limit_are_left_out():
    """All conditions hold, or it goes; where nobody is left, all are if that is asked for."""
    pool = endpoints({"kv": 0.5, "waiting": 9}, {"kv": 0.95, "waiting": 0}, {})
    conditions = (
        Condition(metric="kv-cache-utilization", max_value=0.9),
        Condition(metric="waiting-queue", max_value=5),
    )
    assert kept(UtilizationFilter(UtilizationParameters(conditions=conditions)), pool) == [2]
    none = (Condition(metric="active-requests", max_value=-1),)
    assert kept(UtilizationFilter(UtilizationParameters(conditions=none)), pool) == []
    falls_back = UtilizationParameters(conditions=none, fallback_on_empty=True)
    assert kept(UtilizationFilter(falls_back), pool) == [0, 1, 2]


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ({"type": "threshold", "threshold": attributes.Threshold(operator="LessThan", value=4)}, [0, 4]),
        ({"type": "range", "range": attributes.Range(min=4, max=8)}, [1, 2, 4]),
        ({"type": "topK", "top_k": attributes.TopK(k=2)}, [2, 3, 4]),
        ({"type": "topK", "top_k": attributes.TopK(k=1, higher_is_better=False)}, [0, 4]),
        ({"type": "percentile", "percentile": attributes.Percentile(percentile=75)}, [2, 3, 4]),
        (
            {
                "type": "percentile",
                "percentile": attributes.Percentile(percentile=25, higher_is_better=False),
            },
            [0, 4],
        ),
    ],
)
def test_a_figure_decides_by_threshold_range_rank_or_percentile(algorithm, expected):
    """2, 4, 8 and 9 requests run; the fifth tells nothing, and passes unless it is to fail."""
    pool = endpoints({"running": 2}, {"running": 4}, {"running": 8}, {"running": 9}, {})
    said = {"attribute": "num_requests_running", "algorithm": FilterAlgorithm(**algorithm)}
    assert kept(EndpointAttributeFilter(AttributeFilterParameters(**said)), pool) == expected
    strict = EndpointAttributeFilter(AttributeFilterParameters(**said, on_missing="Fail"))
    assert kept(strict, pool) == expected[:-1]
    assert kept(strict, pool[4:]) == []


def test_a_figure_is_scored_over_the_endpoints_or_a_fixed_range():
    """Linear, inverted where lower is better; clamped to a fixed range; nothing told is 0."""
    pool = endpoints({"running": 2}, {"running": 6}, {"running": 10}, {})

    def scores(kind: str, fixed: FixedRange | None = None) -> list[float]:
        algorithm = ScorerAlgorithm(type=kind, normalization=Normalization(fixed_range=fixed))
        said = AttributeScorerParameters(attribute_key="num_requests_running", algorithm=algorithm)
        return list(EndpointAttributeScorer(said).scores(cycle(), pool))

    assert scores("linear_lower_is_better") == [1.0, 0.5, 0.0, 0.0]
    assert scores("linear_higher_is_better") == [0.0, 0.5, 1.0, 0.0]
    assert scores("linear_lower_is_better", FixedRange(min=4, max=8)) == [1.0, 0.5, 0.0, 0.0]


def test_a_prompt_stays_with_its_cache_until_that_costs_too_much():
    """Who holds .8 of it is kept; not if its first token would be 18 s later than another's."""
    pool = endpoints({}, {}, {"tokens": 1000})
    asked, caches = request(blocks=10), Caches(pool, [9, 7, 8])
    assert kept(PrefixCacheAffinityFilter(), pool, asked, caches) == [0, 2]
    assert kept(PrefixCacheAffinityFilter(), pool, asked, Caches(pool, [7, 7, 7])) == [0, 1, 2]
    for load in (pool[0], pool[2]):
        load.prefill_tokens = 18 * 15_928
    assert kept(PrefixCacheAffinityFilter(), pool, asked, caches) == [0, 2]
    for load in (pool[0], pool[2]):
        load.prefill_tokens += 16
    assert kept(PrefixCacheAffinityFilter(), pool, asked, caches) == [0, 1, 2]
    always = PrefixCacheAffinityFilter(PrefixAffinityParameters(max_ttft_penalty_ms=0))
    assert kept(always, pool, asked, caches) == [0, 2]
    curious = PrefixCacheAffinityFilter(PrefixAffinityParameters(exploration_probability=1.0))
    assert kept(curious, endpoints({}, {}), asked, Caches(pool, [9, 0, 0])) == [0, 1]


def test_the_load_gate_may_go_by_what_is_predicted():
    """With the estimator as its source, a long queue of booked prompts breaks the affinity."""
    pool = endpoints({}, {})
    asked, caches = request(blocks=10), Caches(pool, [10, 0])
    said = PrefixAffinityParameters(ttft_source="latencyPredictor", max_ttft_penalty_ms=1000)
    each = PrefixCacheAffinityFilter(said)
    assert kept(each, pool, asked, caches) == [0]
    pool[0].book(20_000, 0, 0.0)
    assert kept(each, pool, asked, caches) == [0, 1]


def learned(*tokens: int):
    """Endpoints that have learned their rates and have so many tokens booked."""
    pool = endpoints(*[{}] * len(tokens))
    for load, booked in zip(pool, tokens, strict=True):
        load.estimator.rates.observations = 10
        if booked:
            load.book(booked, 0, 0.0)
    return pool


def test_endpoints_that_keep_the_objective_come_first():
    """The tier that keeps it is kept, and sometimes the other; nobody or all is all."""
    pool = learned(0, 100_000, 200_000)
    asked = request(100, x_slo_ttft_ms="2000")
    assert kept(SloHeadroomTierFilter(SloTierParameters(epsilon_explore_neg=0)), pool, asked) == [0]
    assert kept(SloHeadroomTierFilter(SloTierParameters(epsilon_explore_neg=1)), pool, asked) == [1, 2]
    hopeless = request(100, x_slo_ttft_ms="1")
    assert kept(SloHeadroomTierFilter(), pool, hopeless) == [0, 1, 2]


def test_latency_is_scored_by_the_headroom_to_the_objective():
    """Barely kept is best by default, well kept with `most`; a missed objective is 0 beside a kept one."""
    pool = learned(1000, 10_000, 200_000)
    asked = request(100, x_llm_d_slo_ttft_ms="5000")
    least = LatencyScorer().scores(cycle(asked), pool)
    assert least[1] == 1.0
    assert least[1] > least[0] > least[2] == 0.0
    most = LatencyScorer(LatencyParameters(headroom_selection_strategy="most")).scores(cycle(asked), pool)
    assert most[0] == 1.0
    assert most[0] > most[1] > most[2] == 0.0


def test_of_endpoints_that_all_miss_it_the_idle_or_the_nearest_are_scored():
    """Idle ones alone while there are some; then who misses by least."""
    asked = request(100, x_slo_ttft_ms="1")
    idle = LatencyScorer().scores(cycle(asked), learned(0, 5000))
    assert idle[0] > idle[1] == 0.0
    busy = LatencyScorer().scores(cycle(asked), learned(50_000, 5000))
    assert busy[1] == 1.0 > busy[0]


def test_without_anything_learned_latency_is_a_composite():
    """Free cache, queue and prefix count the same."""
    pool = endpoints({"kv": 0.4, "waiting": 0}, {"kv": 0.4, "waiting": 4})
    asked, caches = request(blocks=4), Caches(pool, [0, 4])
    assert list(LatencyScorer().scores(cycle(asked, caches), pool)) == [0.53, 0.53]
    assert latency.objective_ms(request(x_slo_ttft_ms="nan"), [b"x-slo-ttft-ms"]) == 0.0
