"""Translation: which Pods are endpoints, where they are reached, and what becomes a problem."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing
from headgate.api.marks import Address

POOL = api.ObjectRef("ModelServer", "default", "pool")


def endpoints(server, *pods):
    snapshot = routing.translate([], [server], pods)
    return {endpoint.name: endpoint.address for endpoint in snapshot.pools[POOL].endpoints}


def test_ready_pods_of_the_selector_are_endpoints(server, pod):
    """A Pod serves if it has all the labels, is ready, has an address, and is not being deleted."""
    pods = [
        pod("good", "127.0.0.2"),
        pod("also", "127.0.0.3"),
        pod("other", app="other"),
        pod("unready", ready=False),
        pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("homeless", ip=""),
        pod("elsewhere", metadata={"namespace": "n2"}),
    ]
    assert endpoints(server(), *pods) == {
        "default/also": "127.0.0.3:8000",
        "default/good": "127.0.0.2:8000",
    }


def test_selector_without_labels_selects_nothing(server, pod):
    """It would otherwise take in every Pod of its namespace."""
    assert endpoints(server(labels={}), pod("a")) == {}


PORTS = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 7000}]}]}}


@pytest.mark.parametrize(
    ("notes", "port", "more", "address"),
    [
        ({}, None, {}, "127.0.0.2:8000"),
        ({}, None, PORTS, "127.0.0.2:7000"),
        ({}, 9000, PORTS, "127.0.0.2:9000"),
        ({api.marks.PORT: "9100"}, 9000, PORTS, "127.0.0.2:9100"),
        ({api.marks.PORT: "0"}, 9000, {}, "127.0.0.2:9000"),
        ({api.marks.PORT: "http"}, 9000, {}, "127.0.0.2:9000"),
        ({api.marks.PORT: "\u0663"}, 9000, {}, "127.0.0.2:9000"),
        ({api.marks.ADDRESS: "gpu-1:9200"}, 9000, {}, "gpu-1:9200"),
        ({api.marks.ADDRESS: "gpu-1"}, 9000, {}, "gpu-1:9000"),
        ({api.marks.ADDRESS: "gpu-1", api.marks.PORT: "9100"}, 9000, {}, "gpu-1:9100"),
        ({api.marks.ADDRESS: "[::1]:9200"}, 9000, {}, "[::1]:9200"),
        ({api.marks.ADDRESS: "[::1]"}, 9000, {}, "[::1]:9000"),
    ],
)
def test_where_an_endpoint_is_reached(server, pod, notes, port, more, address):
    """Annotations go before the ModelServer's port, that before the Pod's first, and that before 8000."""
    made = server(workloadPort={"port": port}) if port else server()
    assert endpoints(made, pod("a", metadata={"annotations": notes}, **more)) == {"default/a": address}


@given(st.text())
def test_any_text_is_an_address_or_refused(text):
    """Whatever stands in the annotation is read or refused, and what is read has a host and a valid port."""
    try:
        address = Address.parse(text)
    except ValueError:
        return
    assert address.host
    assert address.port is None or 0 < address.port < 65536
    assert Address.parse(str(address)) == address


def test_a_pod_with_a_wrong_address_is_left_out_and_told(server, pod):
    """The others serve; the problem names the Pod and what is wrong with its annotation."""
    wrong = pod("wrong", metadata={"annotations": {api.marks.ADDRESS: "gpu-1:70000"}})
    made = routing.translate([], [server()], [wrong, pod("right")])
    assert [each.name for pool in made.pools.values() for each in pool.endpoints] == ["default/right"]
    (problem,) = made.problems
    assert problem.reason == "InvalidAddress"
    assert "Pod default/wrong" in problem.message
    assert "'gpu-1:70000' is not an address" in problem.message


def test_policies_of_a_server(server):
    """Model, protocol, timeout and retries reach the pool; unset ones keep their meaning."""
    policy = {"timeout": "1m30s", "retry": {"attempts": 3, "retryInterval": "250ms"}}
    made = server(model="org/name", workloadPort={"port": 1, "protocol": "https"}, trafficPolicy=policy)
    pool = routing.translate([], [made], []).pools[POOL]
    assert (pool.model, pool.tls, pool.timeout_s) == ("org/name", routing.Tls(), 90.0)
    assert (pool.attempts, pool.retry_interval_s) == (3, 0.25)
    pool = routing.translate([], [server()], []).pools[POOL]
    assert (pool.model, pool.tls, pool.timeout_s, pool.attempts) == (None, None, None, None)


@pytest.mark.parametrize(
    ("policy", "timeout_s", "attempts", "retry_interval_s"),
    [
        ({}, None, None, 0.0),
        ({"retry": {}}, None, None, 0.1),
        ({"retry": {"retryInterval": "1s"}}, None, None, 1.0),
        ({"retry": {"attempts": 0}}, None, 0, 0.1),
        ({"retry": {"attempts": -3, "retryInterval": "0s"}}, None, 0, 0.0),
        ({"timeout": "0s", "retry": {"attempts": 2, "retryInterval": "-1s"}}, None, 2, 0.0),
        ({"timeout": "1h0.5s"}, 3600.5, None, 0.0),
    ],
)
def test_what_of_a_policy_is_unset_or_odd(server, policy, timeout_s, attempts, retry_interval_s):
    """What is negative counts as zero, no time is no limit, and an interval counts without attempts too."""
    pool = routing.translate([], [server(trafficPolicy=policy)], []).pools[POOL]
    assert (pool.timeout_s, pool.attempts, pool.retry_interval_s) == (timeout_s, attempts, retry_interval_s)


def test_duration_that_is_none_is_a_problem(server):
    """It is ignored and reported, and the pool works."""
    made = server(trafficPolicy={"timeout": "soon", "retry": {"retryInterval": "later"}})
    snapshot = routing.translate([], [made], [])
    assert snapshot.pools[POOL].timeout_s is None
    assert [p.field for p in snapshot.problems] == [
        "spec.trafficPolicy.timeout",
        "spec.trafficPolicy.retry.retryInterval",
    ]


def test_dangling_target_is_a_problem_and_stops_nothing(route, server):
    """A target whose ModelServer is missing is reported by its path; the other targets serve."""
    rule = {"targetModels": [{"modelServerName": "pool"}, {"modelServerName": "gone"}]}
    snapshot = routing.translate([route("r", rules=[rule]), route("s", "other")], [server()], [])
    (problem,) = snapshot.problems
    assert (problem.kind, str(problem.key)) == ("ModelRoute", "default/r")
    assert problem.field == "spec.rules[0].targetModels[1].modelServerName"
    assert problem.message == "there is no ModelServer default/gone"
    assert set(snapshot.models) == {"m", "other"}


@given(rng=st.randoms(use_true_random=False))
def test_order_of_the_objects_does_not_matter(route, server, pod, rng: random.Random):
    """However objects arrive, the snapshot is the same, problems included."""
    made = [("m", "pool"), ("m", "gone"), ("n", "pool"), (None, "two")]
    routes = [
        route(f"r{i}", model, rules=[{"targetModels": [{"modelServerName": name}]}], loraAdapters=["l"])
        for i, (model, name) in enumerate(made)
    ]
    routes.append(route("bad", rules=[{"modelMatch": {"uri": {"regex": "("}}, "targetModels": []}]))
    servers = [
        server(),
        server("two"),
        server("odd", trafficPolicy={"timeout": "x"}),
        server("even", model="e"),
    ]
    pods = [pod(f"p{i}", f"127.0.0.{i}", app) for i, app in enumerate(["pool", "two", "pool", "none"])]
    shuffled = [rng.sample(objects, len(objects)) for objects in (routes, servers, pods)]
    assert routing.translate(*shuffled) == routing.translate(routes, servers, pods)


def test_address_of_an_endpoint():
    """IPv6 addresses stand in brackets."""
    assert routing.Endpoint("p", "::1", 80).address == "[::1]:80"
    assert routing.Endpoint("p", "127.0.0.1", 80).address == "127.0.0.1:80"
