"""In `headgate up`, an AutoscalingPolicyBinding scales a Deployment by the metrics of its engines."""

import json
import signal
import threading
from pathlib import Path

import httpx2
import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "autoscaling"


@pytest.fixture
def scaled(new_machine):
    machine = new_machine(EXAMPLE).start()
    yield machine
    machine.stop(signal.SIGTERM)


def load(machine, requests: int, stop: threading.Event) -> list[threading.Thread]:
    """As many clients at a time, each of which always has a long request under way."""

    def ask() -> None:
        body = {"model": "sim-8b", "max_tokens": 400, "messages": [{"role": "user", "content": "Hello"}]}
        with httpx2.Client(trust_env=False, timeout=120) as http:
            while not stop.is_set():
                assert http.post(f"{machine.url}/v1/chat/completions", json=body).status_code == 200

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(requests)]
    for each in threads:
        each.start()
    return threads


def status(machine) -> dict:
    return json.loads(machine.kubectl("get", "aspb", "sim-8b", "-o", "json")).get("status", {})


def replicas(machine) -> int:
    return int(machine.kubectl("get", "deployment", "sim-8b", "-o", "jsonpath={.spec.replicas}"))


def test_more_requests_get_more_engines(scaled, eventually):
    """24 requests at a time are work for 3 engines with a target of 8, and the status explains it."""
    eventually(lambda: status(scaled).get("desiredReplicas") == 1)
    stop = threading.Event()
    threads = load(scaled, 24, stop)
    try:
        eventually(lambda: replicas(scaled) >= 3, 120)
        eventually(lambda: len(scaled.endpoints()) >= 3, 120)
        said = status(scaled)
        assert said["metricName"] == "vllm:num_requests_running"
        assert {each["type"]: each["status"] for each in said["conditions"]}["Ready"] == "True"
    finally:
        stop.set()
        for each in threads:
            each.join(120)
    events = scaled.kubectl("get", "events", "--field-selector", "involvedObject.name=sim-8b")
    assert "ScalingUp" in events
