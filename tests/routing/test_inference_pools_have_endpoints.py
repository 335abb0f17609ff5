"""Which endpoints an InferencePool has, and what their Pods and its annotations say of them."""

import pytest

V1, V1ALPHA1 = "InferencePool", "InferencePool.v1alpha1"


def addresses(snapshot, ref):
    """Of the pool's endpoints, by name."""
    return {endpoint.name: endpoint.address for endpoint in snapshot.pools[ref].endpoints}


def told(snapshot):
    """Field, reason and message of every problem."""
    return [(problem.field, problem.reason, problem.message) for problem in snapshot.problems]


@pytest.mark.parametrize("kind", [V1, V1ALPHA1])
def test_ready_pods_with_all_labels_are_endpoints(kit, kind):
    """In the namespace of the pool, with an address, and not on their way out; in both versions (B54)."""
    labels = {"app": "pool", "tier": "a"}
    gone = {"labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    pods = [
        kit.pod("right", "10.0.0.1", metadata={"labels": labels | {"more": "of it"}}),
        kit.pod("half", "10.0.0.2"),
        kit.pod("unready", "10.0.0.3", ready=False, metadata={"labels": labels}),
        kit.pod("nowhere", "", metadata={"labels": labels}),
        kit.pod("deleted", "10.0.0.5", metadata=gone),
        kit.pod("foreign", "10.0.0.6", metadata={"labels": labels, "namespace": "other"}),
    ]
    pool = kit.pool(selector={"matchLabels": labels}) if kind == V1 else kit.old_pool(labels=labels)
    snapshot = kit.translated(pool, *pods)
    assert addresses(snapshot, kit.ref(kind=kind)) == {"default/right": "10.0.0.1:8000"}
    assert told(snapshot) == []


def test_an_empty_selector_selects_nothing(kit):
    """It would be every Pod of the namespace by accident."""
    snapshot = kit.translated(kit.old_pool(labels={}), kit.pod("p"))
    assert addresses(snapshot, kit.ref(kind=V1ALPHA1)) == {}


def test_the_two_versions_are_two_pools(kit):
    """One name in both groups: each has its own port."""
    snapshot = kit.translated(kit.pool("pool", 9000), kit.old_pool(port=8000), kit.pod("p", "10.0.0.1"))
    assert addresses(snapshot, kit.ref()) == {"default/p": "10.0.0.1:9000"}
    assert addresses(snapshot, kit.ref(kind=V1ALPHA1)) == {"default/p": "10.0.0.1:8000"}
    assert [pool.name for pool in snapshot.pools.values()] == [
        f"{V1}/default/pool",
        f"{V1ALPHA1}/default/pool",
    ]


def test_each_port_of_a_pod_is_an_endpoint(kit):
    """B53: named by its rank, which is its place among the ports."""
    snapshot = kit.translated(kit.pool("pool", 8000, 8001), kit.pod("p", "10.0.0.1"))
    assert addresses(snapshot, kit.ref()) == {
        "default/p-rank-0": "10.0.0.1:8000",
        "default/p-rank-1": "10.0.0.1:8001",
    }


@pytest.mark.parametrize("name", ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"])
def test_a_pod_may_serve_some_of_the_ports(kit, name):
    """B53: the annotation leaves those that it lists, with their ranks."""
    pod = kit.pod("p", "10.0.0.1", metadata={"annotations": {name: " 8001 "}})
    snapshot = kit.translated(kit.pool("pool", 8000, 8001), pod)
    assert addresses(snapshot, kit.ref()) == {"default/p-rank-1": "10.0.0.1:8001"}
    assert told(snapshot) == []


def test_ports_that_the_pool_does_not_have_count_for_nothing(kit):
    """The Pod keeps those that are right, and the pool is told of the others; the newer name goes first."""
    notes = {
        "llm-d.ai/active-ports": "8001,9999,x",
        "inference.networking.k8s.io/active-ports": "8000",
    }
    snapshot = kit.translated(
        kit.pool("pool", 8000, 8001), kit.pod("p", "10.0.0.1", metadata={"annotations": notes})
    )
    assert addresses(snapshot, kit.ref()) == {"default/p-rank-1": "10.0.0.1:8001"}
    (problem,) = told(snapshot)
    assert problem[:2] == ("spec.selector.matchLabels", "InvalidAnnotation")
    assert problem[2].startswith("Pod default/p, metadata.annotations[llm-d.ai/active-ports]: '9999, x'")


@pytest.mark.parametrize(
    ("ports", "notes", "expected"),
    [
        ((8000,), {"headgate.dev/port": "9001"}, ["10.0.0.1:9001"]),
        ((8000,), {"headgate.dev/address": "host.example:9001"}, ["host.example:9001"]),
        ((8000, 8001), {"headgate.dev/port": "9001,9002"}, ["10.0.0.1:9001", "10.0.0.1:9002"]),
        ((8000, 8001), {"headgate.dev/address": "127.0.0.9"}, ["127.0.0.9:8000", "127.0.0.9:8001"]),
    ],
)
def test_a_pod_says_where_it_is_reached(kit, ports, notes, expected):
    """Its annotations go before the ports of the pool, one for each of them."""
    snapshot = kit.translated(
        kit.pool("pool", *ports), kit.pod("p", "10.0.0.1", metadata={"annotations": notes})
    )
    assert list(addresses(snapshot, kit.ref()).values()) == expected
    assert told(snapshot) == []


@pytest.mark.parametrize("notes", [{"headgate.dev/port": "9001"}, {"headgate.dev/address": "10.0.0.1:9001"}])
def test_one_port_is_not_enough_for_several(kit, notes):
    """It cannot be told which is meant: the pool's own are used, and the pool is told."""
    pod = kit.pod("p", "10.0.0.1", metadata={"annotations": notes})
    snapshot = kit.translated(kit.pool("pool", 8000, 8001), pod)
    assert list(addresses(snapshot, kit.ref()).values()) == ["10.0.0.1:8000", "10.0.0.1:8001"]
    assert [problem[1] for problem in told(snapshot)] == ["InvalidAnnotation"]


def test_an_address_that_is_none_leaves_its_pod_out(kit):
    """And no other."""
    wrong = kit.pod("wrong", metadata={"annotations": {"headgate.dev/address": "no host"}})
    snapshot = kit.translated(kit.pool(), wrong, kit.pod("right", "10.0.0.1"))
    assert list(addresses(snapshot, kit.ref())) == ["default/right"]
    assert [problem[1] for problem in told(snapshot)] == ["InvalidAddress"]


def test_port_0_is_no_port(kit):
    """It is valid by the reference, and nothing can be reached there."""
    snapshot = kit.translated(kit.old_pool(port=0), kit.pod("p"))
    pool = snapshot.pools[kit.ref(kind=V1ALPHA1)]
    assert (pool.endpoints, pool.fault[:36]) == ((), "spec.targetPortNumber: 0 is not a po")
    assert [problem[:2] for problem in told(snapshot)] == [("spec.targetPortNumber", "InvalidPort")]


def test_annotations_say_what_a_model_server_has_fields_for(kit):
    """Engine, policy, served name; of Pods their labels, metrics and KV events."""
    notes = {
        "headgate.dev/engine": "SGLang",
        "headgate.dev/scheduling-profile": "least-request",
        "headgate.dev/model": "org/base",
        "headgate.dev/kv-events": "tcp://*:5557",
    }
    pod = kit.pod("p", metadata={"annotations": {"prometheus.io/port": "9400"}})
    pool = kit.translated(kit.pool(notes=notes), pod).pools[kit.ref()]
    (endpoint,) = pool.endpoints
    assert (pool.engine, pool.scheduling_profile, pool.model) == ("SGLang", "least-request", "org/base")
    assert pool.labels[endpoint] == {"app": "pool", "zone": "a"}
    assert pool.metrics_pages[endpoint].port == 9400
    assert pool.kv_events[endpoint].port == 5557
    assert kit.translated(kit.pool()).pools[kit.ref()].engine == "vLLM"


def test_ranks_have_metrics_and_events_of_their_own(kit):
    """The page that a Pod names for all of itself is one rank's; events come on one port after another."""
    notes = {
        "prometheus.io/port": "8000",
        "prometheus.io/path": "/stats",
        "headgate.dev/kv-events": "tcp://*:5557",
        "headgate.dev/kv-events-replay": "tcp://*:5600",
    }
    pod = kit.pod("p", metadata={"annotations": notes})
    pool = kit.translated(kit.pool("pool", 8000, 8001), pod).pools[kit.ref()]
    pages = [pool.metrics_pages[endpoint] for endpoint in pool.endpoints]
    events = [pool.kv_events[endpoint] for endpoint in pool.endpoints]
    assert [(page.port, page.path) for page in pages] == [(None, "/stats")] * 2
    assert [(each.port, each.replay_port, each.ranks) for each in events] == [
        (5557, 5600, 1),
        (5558, 5601, 1),
    ]


@pytest.mark.parametrize(("protocol", "http2"), [("http", False), ("kubernetes.io/h2c", True)])
def test_endpoints_speak_what_the_pool_says(kit, protocol, http2):
    """HTTP/1.1, or HTTP/2; pools of v1alpha1 have no field for it."""
    snapshot = kit.translated(kit.pool(appProtocol=protocol), kit.old_pool(), kit.pod("p"))
    assert snapshot.pools[kit.ref()].http2 == http2
    assert not snapshot.pools[kit.ref(kind=V1ALPHA1)].http2
    assert told(snapshot) == []
