"""What a user does with kubectl reaches the traffic at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

pytestmark = pytest.mark.whole

ROUTE = """
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {{name: {name}, namespace: default}}
spec:
  modelName: {model}
  rules:
    - targetModels: [{{modelServerName: {server}}}]
"""


def test_an_applied_route_changes_the_traffic_at_once(machine):
    """From the return of kubectl apply until the gateway serves the new route, nothing waits for its turn.
    On a busy machine, it may take a few tries to see."""
    with httpx2.Client(base_url=machine.url, trust_env=False, verify=False, timeout=30) as client:

        def seconds_until_served(model: str) -> float:
            began = time.monotonic()
            body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}
            while client.post("/v1/chat/completions", json=body).status_code != 200:
                assert time.monotonic() - began < 30
            return time.monotonic() - began

        names = []
        for turn in range(10):
            names.append(f"fast-{turn}")
            machine.kubectl(
                "apply",
                "-f",
                "-",
                text=ROUTE.format(name=names[-1], model=f"new-{turn}", server="sim-8b"),
            )
            if (took_s := seconds_until_served(f"new-{turn}")) < 5:  # milliseconds, on one that is not busy
                break
    machine.kubectl("delete", "modelroute", *names)
    assert took_s < 5


def test_a_deleted_route_is_served_no_more(machine, eventually):
    """After kubectl delete, the model is unknown."""
    machine.kubectl("apply", "-f", "-", text=ROUTE.format(name="brief", model="brief", server="sim-8b"))
    eventually(lambda: machine.ask(model="brief", tokens=1).status_code == 200)
    machine.kubectl("delete", "modelroute", "brief")
    eventually(lambda: machine.ask(model="brief", tokens=1).status_code == 404)


def test_scaling_brings_more_engines_into_rotation(machine, eventually):
    """kubectl scale up and down moves the set of endpoints that requests land on."""
    machine.kubectl("scale", "deployment", "sim-8b", "--replicas=4")
    try:
        eventually(lambda: len(machine.endpoints()) == 4)
        answered = set()

        def all_answered() -> bool:
            with ThreadPoolExecutor(12) as clients:
                answers = clients.map(lambda _: machine.ask(tokens=20), range(12))
                answered.update(answer.headers["x-inference-pod"] for answer in answers)
            return len(answered) == 4

        eventually(all_answered)
    finally:
        machine.kubectl("scale", "deployment", "sim-8b", "--replicas=2")
    eventually(lambda: len(machine.endpoints()) == 2)
    machine.kubectl("wait", "deployment/sim-8b", "--for=jsonpath={.status.replicas}=2", "--timeout=180s")


def test_a_route_to_nothing_says_what_is_missing(machine, eventually):
    """A dangling target is an answer to the client and a condition on the object, both with its name."""
    machine.kubectl(
        "apply", "-f", "-", text=ROUTE.format(name="dangling", model="dangling", server="nowhere")
    )
    eventually(lambda: "default/nowhere" in machine.ask(model="dangling").json()["error"]["message"])
    assert machine.ask(model="dangling").status_code == 404
    eventually(
        lambda: (
            "nowhere" in machine.kubectl("get", "modelroute", "dangling", "-o", "yaml").split("\nstatus:")[-1]
        )
    )
    machine.kubectl("delete", "modelroute", "dangling")


def test_a_malformed_route_is_refused_with_every_error(machine):
    """kubectl prints each wrong field with its path, in Kubernetes' words."""
    wrong = (
        ROUTE.format(name="wrong", model="m", server="s").replace(
            "modelServerName: s", "modelServerName: s, weight: 101"
        )
        + "  rateLimit: {unit: week, inputTokensPerUnit: 0}\n"
    )
    said = machine.kubectl("apply", "-f", "-", text=wrong, fails=True)
    assert 'The ModelRoute "wrong" is invalid' in said
    assert "spec.rules[0].targetModels[0].weight: Invalid value: 101" in said
    assert 'spec.rateLimit.unit: Unsupported value: "week": supported values: "second", "minute"' in said
    assert "spec.rateLimit.inputTokensPerUnit: Invalid value: 0" in said


def test_a_limit_acts_and_goes_at_once(machine, eventually):
    """kubectl apply sets a limit and takes it away again, amid traffic (R33)."""
    plain = ROUTE.format(name="limited", model="limited", server="sim-8b")
    machine.kubectl("apply", "-f", "-", text=plain + "  rateLimit: {unit: month, outputTokensPerUnit: 10}\n")
    eventually(lambda: machine.ask(model="limited", tokens=20).status_code == 200)
    refused = machine.ask(model="limited", tokens=1)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after"]) > 86_400
    assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
    machine.kubectl("apply", "-f", "-", text=plain)
    eventually(lambda: machine.ask(model="limited", tokens=1).status_code == 200)
    assert "x-ratelimit-limit-tokens" not in machine.ask(model="limited", tokens=1).headers
    machine.kubectl("delete", "modelroute", "limited")
