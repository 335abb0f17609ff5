"""A translator that has seen other objects before translates the present ones as a new one would.

It does not work on routes that a change does not concern.
"""

from __future__ import annotations

import random

from gateway_objects import HTTP, Head, decoded, gateway, leads_to, route, service, world
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import api
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing import INFERENCE_POOL, gateway_api, patterns
from headgate.routing.gateway_api import Entry, EntryList, rules

HOSTS = ["", "a.example", "*.example", "b.test"]
PATHS = ["/", "/a", "/a/b", "/c"]
POOL = api.ObjectRef(INFERENCE_POOL, "shop", "pool")
REFERENCES = [
    {"name": "web", "port": 80},
    {"name": "web", "port": 81},
    {"name": "other", "port": 80},
    {"name": "web", "port": 80, "namespace": "far"},
    {"name": "pool", "kind": "InferencePool", "group": "inference.networking.k8s.io"},
]


def some_rule(rng):
    path = {"type": rng.choice(["PathPrefix", "Exact"]), "value": rng.choice(PATHS)}
    made = {"matches": [{"path": path}], "backendRefs": [rng.choice(REFERENCES)]}
    if rng.random() < 0.2:
        mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": rng.choice(REFERENCES)}}
        made["filters"] = [mirror]
    return made


def some_route(name, rng):
    parents = [{"name": rng.choice(["front", "front", "back", "nobody"])}]
    hosts = rng.sample(HOSTS[1:], rng.randint(0, 2))
    return route(name, *(some_rule(rng) for _ in range(rng.randint(1, 2))), parents=parents, hosts=hosts)


def some_gateway(name, rng):
    allowed = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "x"}}}}
    listener = {**HTTP, "hostname": rng.choice(HOSTS) or None}
    if rng.random() < 0.3:
        listener["allowedRoutes"] = allowed
    return gateway(name, listener)


def change(objects, pools, rng):
    """One object appears, changes or goes."""

    def put(store, made):
        if rng.random() < 0.2:
            store.pop(made.metadata.key, None)
        else:
            store[made.metadata.key] = made

    kind = rng.choice(["route", "route", "route", "gateway", "service", "pool", "grant", "namespace"])
    if kind == "route":
        put(objects.routes, some_route(rng.choice("pqr"), rng))
    elif kind == "gateway":
        put(objects.gateways, some_gateway(rng.choice(["front", "back"]), rng))
    elif kind == "service":
        name, namespace = rng.choice([("web", "shop"), ("other", "shop"), ("web", "far")])
        put(objects.services, service(name, namespace, port=rng.choice([80, 81])))
    elif kind == "pool":
        pools ^= {POOL}
    elif kind == "namespace":
        metadata = {"labels": {"team": rng.choice("xy")}}
        put(objects.namespaces, decoded(api.Namespace, "shop", "", metadata=metadata))
    else:
        source = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop"}
        spec = {"from": [source], "to": [{"group": "", "kind": "Service"}]}
        put(objects.grants, decoded(ReferenceGrant, "g", "far", spec=spec))


def answers(translation):
    """Where requests go."""
    ports = translation.entry_points.ports
    return {
        (place, host, path): leads_to(translation, host, Head(path), place)
        for place in ports
        for host in ("a.example", "b.test", "else")
        for path in ("/", "/a", "/a/b/c", "/c")
    }


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_any_changes_lead_where_the_objects_say(seed):
    """Whatever changed before, statuses and destinations are those of the present objects."""
    rng = random.Random(seed)
    objects, pools = world(some_gateway("front", rng), service()), set()
    kept = gateway_api.Translator()
    for _ in range(12):
        change(objects, pools, rng)
        found, fresh = kept.translate(objects, pools), gateway_api.Translator().translate(objects, pools)
        assert found.routes == fresh.routes
        assert found.gateways == fresh.gateways
        assert found.entry_points.rules == fresh.entry_points.rules
        assert found.entry_points.services == fresh.entry_points.services
        assert answers(found) == answers(fresh)


def test_a_change_concerns_few_routes(monkeypatch):
    """Of many routes, only the one that changed is worked on, or those that lead to a Service that did."""
    many = [route(f"r{at}", {"backendRefs": [{"name": f"s{at % 10}", "port": 80}]}) for at in range(50)]
    objects = world(gateway(), *(service(f"s{at}") for at in range(10)), *many)
    translator, worked = gateway_api.Translator(), []
    resolved = rules.resolved
    monkeypatch.setattr(rules, "resolved", lambda *given: worked.append(given[0]) or resolved(*given))
    translator.translate(objects, ())
    assert len(worked) == 50
    worked.clear()
    translator.translate(objects, ())
    assert not worked
    objects.routes[many[3].metadata.key] = route("r3", {"backendRefs": [{"name": "s1", "port": 80}]})
    translator.translate(objects, ())
    assert [each.metadata.name for each in worked] == ["r3"]
    worked.clear()
    objects.services[api.ObjectKey("shop", "s1")] = service("s1", port=81)
    translator.translate(objects, ())
    assert sorted(each.metadata.name for each in worked) == ["r1", "r11", "r21", "r3", "r31", "r41"]


KINDS = st.sampled_from(["PathPrefix", "Exact", "RegularExpression"])
SEGMENTS = st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(
    st.lists(st.tuples(KINDS, SEGMENTS, st.sampled_from([None, "GET", "POST"])), min_size=1, max_size=30),
    st.lists(SEGMENTS, min_size=1, max_size=10),
)
def test_the_index_finds_the_first_that_fits(matches, paths):
    """As comparing all entries one after the other does, whatever the paths are."""
    made = [
        {"matches": [{"path": {"type": kind, "value": value}, **({"method": method} if method else {})}]}
        for kind, value, method in matches
    ]
    translation = gateway_api.Translator().translate(world(gateway(), route("r", *made)), ())
    virtual = translation.entry_points.ports[gateway_api.Place("", 80)].hosts.find("h")
    entries = virtual.entries.find("h").entries
    for path in paths:
        head = Head(path)
        wanted = next((each for each in entries if each.match.fits(head, patterns.Work())), None)
        assert EntryList(entries).find(head, patterns.Work()) is wanted


def test_ten_thousand_prefixes_cost_as_much_as_ten():
    """The work for one request does not grow with the number of routes of its host."""
    translation = gateway_api.Translator().translate(
        world(
            gateway(),
            route(
                "r",
                *(
                    {"matches": [{"path": {"type": "PathPrefix", "value": f"/t/{at}"}}]}
                    for at in range(12_000)
                ),
            ),
        ),
        (),
    )
    virtual = translation.entry_points.ports[gateway_api.Place("", 80)].hosts.find("h")
    work = patterns.Work()
    found = virtual.find("h", Head("/t/11999/chat"), work)
    assert isinstance(found, Entry)
    assert found.match.path == "/t/11999"
    assert patterns.MAX_STEPS - work.left == patterns.CONDITION_STEPS
