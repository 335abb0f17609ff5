"""Under every policy that looks at load a burst spreads, and the same seed picks the same endpoints."""

import random

import pytest
import yaml
from some_endpoints import endpoints, request

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import configuration

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}
FILES = {
    "defaults of the picker": {**HEAD, "plugins": []},
    "queue alone": {**HEAD, "plugins": [{"type": "queue-scorer"}]},
    "active requests": {**HEAD, "plugins": [{"type": "active-request-scorer"}]},
    "affinity and token load": {
        **HEAD,
        "plugins": [{"type": "prefix-cache-affinity-filter"}, {"type": "token-load-scorer"}],
    },
    "defaults of Kthena": yaml.safe_load("scheduler: {plugins: {Score: {enabled: [{name: least-request}]}}}"),
}
ENDPOINTS, BURST = 16, 800


def spread(policy: scheduling.Policy, seed: int) -> list[int]:
    """Requests on each of 16 equal endpoints after 800 arrivals at once, all different."""
    pool = endpoints(*[{"waiting": 0, "running": 0, "kv": 0.1}] * ENDPOINTS)
    rng = random.Random(seed)
    for number in range(BURST):
        asked = request(200, blocks=2)
        asked.prefix = (number * 2 + 1, number * 2 + 2)
        choice = scheduling.pick(policy, asked, pool, 0.0, rng)
        assert choice is not None
        choice.load.book(200, 0, 0.0)
        policy.booked(asked, choice, 0.0)
    return [load.requests for load in pool]


def made(name: str) -> scheduling.Policy:
    if name in configuration.NAMES:
        return configuration.named(name, PrefixIndex())
    plan = configuration.read(FILES[name]).plan
    assert plan is not None
    return plan.policy(PrefixIndex())


@pytest.mark.parametrize("name", [*FILES, "least-work", "least-request", "round-robin", "predicted"])
def test_800_arrivals_at_once_spread(name):
    """The busiest of 16 has at most 1.2 times the mean, between two readings of the engines."""
    counts = spread(made(name), 5)
    assert sum(counts) == BURST
    assert max(counts) <= 1.2 * BURST / ENDPOINTS


@pytest.mark.parametrize("name", [*FILES, "random", "least-work", "predicted"])
def test_the_same_seed_decides_the_same(name):
    """Two runs are equal, endpoint by endpoint."""
    assert spread(made(name), 9) == spread(made(name), 9)
