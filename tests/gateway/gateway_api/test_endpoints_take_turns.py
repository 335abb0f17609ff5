"""Endpoints of a Service get requests one after the other; those that failed rest while there are others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.gateway_api.balancing import REST_S, Balancer
from headgate.routing import Endpoint
from headgate.routing.gateway_api import ServiceEndpoints, ServicePort

KEY = ServicePort("shop", "web", 80)


def service(count: int) -> ServiceEndpoints:
    return ServiceEndpoints(KEY, tuple(Endpoint(str(KEY), f"10.0.0.{i}", 80) for i in range(count)))


@given(st.integers(1, 6), st.integers(1, 40))
def test_shares_differ_by_one_at_most(count: int, requests: int) -> None:
    balancer, web = Balancer(), service(count)
    picked = [balancer.pick(web, (), 0.0) for _ in range(requests)]
    counts = [picked.count(each) for each in web.endpoints]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 5), st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4)), st.integers(0, 9))
def test_the_best_of_those_not_tried_is_picked(count, failed, tried, before) -> None:
    balancer, web = Balancer(), service(count)
    for _ in range(before):
        balancer.pick(web, (), 0.0)
    for number in failed & set(range(count)):
        balancer.failed(web.endpoints[number], 0.0)
    out = [web.endpoints[number] for number in tried if number < count]
    left = [each for each in web.endpoints if each not in out]
    picked = balancer.pick(web, out, REST_S / 2)
    rested = [each for each in left if web.endpoints.index(each) not in failed]
    assert (picked in (rested or left)) if left else picked is None


def test_an_endpoint_that_failed_comes_back() -> None:
    balancer, web = Balancer(), service(2)
    balancer.failed(web.endpoints[0], 0.0)
    assert {balancer.pick(web, (), 1.0) for _ in range(4)} == {web.endpoints[1]}
    assert {balancer.pick(web, (), REST_S + 1) for _ in range(4)} == set(web.endpoints)


def test_services_that_are_gone_are_forgotten() -> None:
    balancer, web = Balancer(), service(2)
    balancer.pick(web, (), 0.0)
    balancer.failed(web.endpoints[0], 0.0)
    balancer.keep([])
    assert balancer.pick(web, (), 1.0) == web.endpoints[0]
