"""The Envoy that Envoy Gateway configured asks Headgate's picker: for InferencePools, and for Services."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from behind_envoy_gateway import ENGINES, MODEL, POOL_HOST, SERVICE_HOST, decision

HOSTS = pytest.mark.parametrize("host", [POOL_HOST, SERVICE_HOST], ids=["pool", "service"])
CONVERSATION = "You are a helpful assistant of a library. " * 100
"""Long enough that an engine that has it cached is preferred."""
pytestmark = pytest.mark.timeout(600)


@HOSTS
def test_the_endpoint_that_is_picked_serves_the_request(site, host):
    """And the picker says so in the response."""
    for number in range(2 * ENGINES):
        before = site.served()
        response = site.ask(host, f"{host} {number}")
        assert response.status_code == 200, response.text
        picked = decision(response)
        assert picked["target"] == f"InferencePool/default/{MODEL}"
        after = site.served()
        assert {each for each in after if after[each] > before[each]} == {picked["address"].split(":")[0]}


@HOSTS
def test_turns_of_a_conversation_go_to_the_endpoint_that_has_it_cached(site, host):
    """Conversations as such go to all endpoints."""
    places = []
    for number in range(3 * ENGINES):
        turns = [f"{host} {number}. {CONVERSATION}" + "And then? " * turn for turn in range(3)]
        [place] = {decision(site.ask(host, turn))["address"] for turn in turns}
        places.append(place)
    assert len({*places}) > 1


@HOSTS
def test_long_bodies_pass(site, host):
    """Beyond the 32 KiB of which Envoy holds a body by default."""
    assert site.ask(host, "Hello", user="x" * 200_000).status_code == 200


def test_streams_arrive_as_they_are_made_and_may_take_long(site):
    """Longer than the 15 s that Envoy gives requests by default, and without usage that nobody asked for."""
    with ThreadPoolExecutor() as clients:
        streams = clients.map(lambda host: _stream(site, host), [POOL_HOST, SERVICE_HOST])
        for events, times in streams:
            assert times[-1] > 15
            assert times[0] < 5
            assert events[-1] == "data: [DONE]"
            assert not any('"usage":{' in event for event in events)


def _stream(site, host: str) -> tuple[list[str], list[float]]:
    """The events of a stream of 1,500 tokens, and when each arrived."""
    message = {"role": "user", "content": "Hello"}
    body = {"model": MODEL, "max_tokens": 1500, "ignore_eos": True, "stream": True, "messages": [message]}
    url, headers = f"{site.envoy}/v1/chat/completions", {"host": host}
    events, times, began = [], [], time.monotonic()
    with httpx2.stream("POST", url, json=body, headers=headers, trust_env=False, timeout=60) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line:
                events.append(line)
                times.append(time.monotonic() - began)
    return events, times


def test_an_endpoint_that_dies_is_retried_elsewhere_behind_a_service(site, eventually):
    """Even a conversation that it has cached; no request fails while it starts again."""
    place = decision(site.ask(SERVICE_HOST, CONVERSATION))["address"].split(":")[0]
    site.kill("simulate", f"--host={place}")
    responses = [site.ask(SERVICE_HOST, CONVERSATION) for _ in range(10)]
    assert [each.status_code for each in responses] == [200] * 10
    assert decision(responses[0])["address"] != f"{place}:8000"  # as Envoy reports it to the picker
    eventually(lambda: len(site.pods(f"app={MODEL}")) == ENGINES)


def test_an_endpoint_that_dies_is_avoided_in_a_pool(site, eventually):
    """Envoy AI Gateway accepts a single endpoint, so that requests on their way to it fail."""
    place = decision(site.ask(POOL_HOST, CONVERSATION))["address"].split(":")[0]
    site.kill("simulate", f"--host={place}")
    began = time.monotonic()
    statuses = []
    while statuses[-3:] != [200] * 3:
        statuses.append(site.ask(POOL_HOST, CONVERSATION).status_code)
        assert time.monotonic() - began < 30, statuses
    assert {*statuses} <= {200, 503}
    eventually(lambda: len(site.pods(f"app={MODEL}")) == ENGINES)


def test_requests_outlive_the_picker_behind_a_service(site):
    """Its policy fails open: Envoy balances by itself until the picker is back."""
    site.kill("picker", "--pool-namespace=default")
    responses = [site.ask(SERVICE_HOST, f"open {number}") for number in range(20)]
    assert {each.status_code for each in responses} == {200}
    assert "x-headgate-decision" not in responses[0].headers


def test_a_pool_fails_closed_until_the_picker_is_back(site, eventually):
    """Also with failureMode FailOpen, which Envoy AI Gateway ignores."""
    patch = '{"spec": {"endpointPickerRef": {"failureMode": "FailOpen"}}}'
    site.cluster.kubectl("patch", "inferencepool", MODEL, "--type=merge", "-p", patch)
    site.kill("picker", "--pool-namespace=default")
    assert site.ask(POOL_HOST, "closed").status_code == 500
    eventually(lambda: site.ask(POOL_HOST, "back").status_code == 200)
    eventually(lambda: "x-headgate-decision" in site.ask(SERVICE_HOST, "back").headers)


def test_the_statuses_of_gateway_and_routes_are_good(site):
    """As Envoy Gateway writes them."""
    [programmed] = [
        each
        for each in site.cluster.get("gateway", "llm")["status"]["conditions"]
        if each["type"] == "Programmed"
    ]
    assert programmed["status"] == "True"
    for route in ("llama", "llama-service"):
        [parent] = site.cluster.get("httproute", route)["status"]["parents"]
        conditions = {each["type"]: each["status"] for each in parent["conditions"]}
        assert conditions["Accepted"] == conditions["ResolvedRefs"] == "True"
