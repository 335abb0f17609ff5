"""A model without engines holds its first request until an engine is ready, on a whole machine."""

import re
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

pytestmark = pytest.mark.whole

SERVER, DEPLOYMENT = "modelserver/sim-8b", "deployment/sim-8b"


@pytest.fixture
def cold(machine, eventually):
    """The machine with its model at zero; afterwards it is as before."""
    machine.kubectl("annotate", SERVER, "headgate.dev/scale-from-zero=20")
    machine.kubectl("scale", DEPLOYMENT, "--replicas=0")
    eventually(lambda: machine.endpoints() == [])
    yield machine
    machine.kubectl("scale", DEPLOYMENT, "--replicas=2")
    machine.kubectl("annotate", SERVER, "headgate.dev/scale-from-zero-", "headgate.dev/start-failed-")
    eventually(lambda: len(machine.endpoints()) == 2)


def waiting(machine) -> int:
    """Requests that wait for an engine."""
    page = machine.get("/metrics", "metrics-port").text
    name = r'^headgate_gateway_flow_control_waiting_for_endpoints\{pool="default/sim-8b"\} (\S+)$'
    found = re.search(name, page, re.MULTILINE)
    return int(float(found[1])) if found else 0


def ask(machine, **headers: str) -> httpx2.Response:
    body = {"model": "sim-8b", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
    with httpx2.Client(trust_env=False, timeout=300) as client:
        return client.post(f"{machine.url}/v1/chat/completions", json=body, headers=headers)


def test_the_first_requests_wait_for_the_first_engine(cold, eventually):
    """Whatever starts it: here it is a user who scales the Deployment."""
    with ThreadPoolExecutor(3) as clients:
        answers = [clients.submit(ask, cold) for _ in range(3)]
        eventually(lambda: waiting(cold) == 3)
        assert not any(answer.done() for answer in answers)
        eventually(lambda: "the next request starts it" in cold.kubectl("get", SERVER, "-o", "wide"))
        cold.kubectl("scale", DEPLOYMENT, "--replicas=1")
        assert [answer.result().status_code for answer in answers] == [200, 200, 200]
    eventually(lambda: waiting(cold) == 0)


def test_who_cannot_wait_is_told_when_to_come_back(cold):
    """By the time that the annotation gives."""
    response = ask(cold, **{"x-request-timeout-ms": "1000"})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "model_starting")
    assert 1 <= int(response.headers["retry-after"]) <= 20


def test_a_start_that_failed_is_no_wait(cold, eventually):
    """The annotation reaches those who wait, and those who come."""
    with ThreadPoolExecutor(1) as clients:
        waits = clients.submit(ask, cold)
        eventually(lambda: waiting(cold) == 1)
        cold.kubectl("annotate", SERVER, "headgate.dev/start-failed=no GPU is free")
        for response in (waits.result(), ask(cold)):
            assert (response.status_code, response.json()["error"]["code"]) == (503, "start_failed")
            assert "it could not be started: no GPU is free" in response.json()["error"]["message"]
