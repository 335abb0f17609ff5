"""Whatever plugins a policy is composed of, and whatever engines say: it picks, or says why it does not."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from some_endpoints import Caches, endpoints, request

from headgate.scheduling import configuration
from headgate.scheduling.plugins import Scorer
from headgate.scheduling.plugins.catalogue import KTHENA, PICKER

PARAMETERS = {
    "by-label": {"label": "gpu", "validValues": ["a"]},
    "header-label-affinity-scorer": {"headerName": "x-gpu", "labelKey": "gpu"},
    "endpoint-attribute-scorer": {
        "attributeKey": "waiting-queue",
        "algorithm": {"type": "linear_lower_is_better"},
    },
    "endpoint-attribute-filter": {
        "attribute": "kv-cache-utilization",
        "algorithm": {"type": "topK", "topK": {"k": 2}},
    },
    "utilization-filter": {"conditions": [{"metric": "waiting-queue", "maxValue": 100}]},
    "label-selector-filter": {"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["b"]}]},
}
"""Of plugins that need some."""

pickers = st.sampled_from(["max-score-picker", "random-picker", "weighted-random-picker"])
names = st.lists(st.sampled_from([each for each in PICKER if "-picker" not in each]), unique=True, max_size=5)
weights = st.floats(0, 100)
states = st.fixed_dictionaries(
    {"labels": st.sampled_from([{}, {"gpu": "a"}, {"gpu": "b", "llm-d.ai/role": "decode"}])},
    optional={
        "waiting": st.integers(0, 300),
        "running": st.integers(0, 300),
        "kv": st.floats(0, 1),
        "requests": st.integers(0, 50),
        "tokens": st.integers(0, 10**6),
        "active": st.sampled_from(["", "a", "a b"]),
        "max_adapters": st.integers(0, 2),
        "ttft_s": st.floats(0, 9),
        "tpot_s": st.floats(0, 1),
    },
)
asks = st.builds(
    request,
    st.integers(0, 5000),
    blocks=st.integers(0, 6),
    adapter=st.sampled_from(["", "a"]),
    priority=st.integers(-1, 1),
    x_gpu=st.sampled_from(["", "a"]),
    x_slo_ttft_ms=st.sampled_from(["", "100", "nonsense", "-1", "inf"]),
    x_session_token=st.sampled_from(["", "ZGVmYXVsdC9wb2QtMQ==", "???"]),
)


def judge(plan: configuration.Plan, pool, held, asked, seed: int) -> None:
    policy = plan.policy(Caches(pool, held))
    rng = random.Random(seed)
    for number in range(3):
        choice = policy.pick(asked, pool, float(number), rng)
        reasons = policy.reasons(asked, pool, choice, float(number))
        if choice is None:
            assert policy.refusal(asked, pool, float(number)).why
            continue
        assert choice.load in pool
        assert 0 <= choice.cached_tokens <= asked.prompt_tokens
        assert set(reasons) == set(pool)
        for name, value in policy.marks(asked, choice):
            assert b"\n" not in name + value
        choice.load.book(asked.prompt_tokens - choice.cached_tokens, 0, float(number))
        policy.booked(asked, choice, float(number))


@settings(max_examples=60, deadline=None)
@given(names, pickers, weights, st.lists(states, min_size=1, max_size=5), asks, st.data())
def test_compositions_of_the_picker(chosen, picker, weight, given_states, asked, data):
    """Filters, scorers and pickers in any order and number."""
    pool = endpoints(*given_states)
    held = data.draw(st.lists(st.integers(0, 6), min_size=len(pool), max_size=len(pool)))
    document = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": name, "parameters": PARAMETERS.get(name, {})} for name in (*chosen, picker)],
        "schedulingProfiles": [
            {
                "name": "p",
                "plugins": [
                    {"pluginRef": name, **({"weight": weight} if issubclass(PICKER[name], Scorer) else {})}
                    for name in (*chosen, picker)
                ],
            }
        ],
    }
    reading = configuration.read(document, allow_alpha=True)
    assert reading.plan is not None, reading.problems
    judge(reading.plan, pool, held, asked, data.draw(st.integers(0, 9)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(list(KTHENA)), unique=True),
    st.lists(states, min_size=1, max_size=5),
    asks,
    st.data(),
)
def test_compositions_of_kthena(chosen, given_states, asked, data):
    """Every plugin in both roles: those that have no such role are skipped."""
    pool = endpoints(*given_states)
    held = data.draw(st.lists(st.integers(0, 6), min_size=len(pool), max_size=len(pool)))
    enabled = {"Filter": {"enabled": chosen}, "Score": {"enabled": [{"name": name} for name in chosen]}}
    plan = configuration.read({"scheduler": {"plugins": enabled}}).plan
    assert plan is not None
    judge(plan, pool, held, asked, data.draw(st.integers(0, 9)))
