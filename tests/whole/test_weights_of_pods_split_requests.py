"""Requests are shared by the weights of Pods, on a whole machine."""

import json
from collections import Counter

import httpx2
import pytest

pytestmark = pytest.mark.whole


@pytest.fixture
def weighted(machine, eventually):
    """The machine, one of whose two Pods should get four times as many requests; then as before."""
    pods = json.loads(machine.kubectl("get", "pods", "-l", "app=sim-8b", "-o", "json"))["items"]
    name = pods[0]["metadata"]["name"]
    machine.kubectl("annotate", f"pod/{name}", "headgate.dev/weight=4")
    eventually(lambda: "weight 4: 80.0% of the requests for it" in explained(machine))
    yield machine, f"default/{name}"
    machine.kubectl("annotate", f"pod/{name}", "headgate.dev/weight-")
    eventually(lambda: "weight 4" not in explained(machine))


def explained(machine) -> str:
    """Which endpoint a request would get, and why."""
    url = f"http://127.0.0.1:{machine.ports['admin-port']}/debug/explain/v1/chat/completions"
    with httpx2.Client(trust_env=False, timeout=30) as client:
        return client.post(url, json={"model": "sim-8b", "messages": []}).text


def started(machine) -> Counter[str]:
    """Requests that each endpoint has had."""
    found = machine.get("/debug/endpoints", "admin-port").json()
    return Counter({each["name"]: each["requests_started"] for each in found["default/sim-8b"]})


def test_a_pod_gets_the_share_that_its_weight_says(weighted):
    """Four of five requests."""
    machine, heavy = weighted
    before = started(machine)
    for _ in range(50):
        assert machine.ask(tokens=1).status_code == 200
    got = started(machine) - before
    assert sum(got.values()) == 50
    assert 38 <= got[heavy] <= 42
