"""A route is attached to the listeners that its parentRefs name and that allow it, or the reason is told."""

from __future__ import annotations

import pytest
from gateway_objects import HTTP, Head, gateway, leads_to, route, translate

from headgate import api


def attachment(*objects: object, **rest: object):
    [found] = translate(*objects, **rest).routes[api.ObjectKey("shop", "r")].attachments
    return found


def listeners(*objects: object, **rest: object) -> list[str]:
    return [each.listener.spec.name for each in attachment(*objects, **rest).attached]


def two(**first: object) -> api.Gateway:
    return gateway("front", {**HTTP, "name": "a", **first}, {**HTTP, "name": "b", "port": 8000})


def test_a_parent_without_a_section_is_all_listeners() -> None:
    assert listeners(two(), route()) == ["a", "b"]


@pytest.mark.parametrize(
    ("parent", "names"),
    [({"sectionName": "b"}, ["b"]), ({"port": 80}, ["a"]), ({"sectionName": "a", "port": 80}, ["a"])],
)
def test_a_section_or_port_names_some(parent: dict[str, object], names: list[str]) -> None:
    assert listeners(two(), route(parents=[{"name": "front", **parent}])) == names


@pytest.mark.parametrize("parent", [{"sectionName": "c"}, {"port": 81}, {"sectionName": "a", "port": 8000}])
def test_a_section_that_does_not_exist_is_no_parent(parent: dict[str, object]) -> None:
    fault = attachment(two(), route(parents=[{"name": "front", **parent}])).fault
    assert fault.reason == "NoMatchingParent"


@pytest.mark.parametrize(
    ("namespaces", "allows"),
    [
        ({"from": "Same"}, False),
        ({"from": "All"}, True),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}, True),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "bank"}}}, False),
    ],
)
def test_listeners_say_which_namespaces_routes_come_from(namespaces: object, allows: bool) -> None:
    front = gateway("front", {**HTTP, "allowedRoutes": {"namespaces": namespaces}}, namespace="infra")
    mine = route(parents=[{"name": "front", "namespace": "infra"}])
    found = attachment(front, mine, namespaces={"shop": {"team": "shop"}})
    assert (found.fault is None) == allows
    assert allows or found.fault.reason == "NotAllowedByListeners"


def test_host_names_in_common_reach_the_route() -> None:
    front = gateway("front", {**HTTP, "hostname": "*.example.com"})
    mine = route(hosts=["a.example.com", "a.example.net", "*.b.example.com"])
    [attached] = attachment(front, mine).attached
    assert [host for host, _ in attached.hosts] == ["a.example.com", "*.b.example.com"]
    found = translate(front, mine)
    assert leads_to(found, "a.example.com", Head()) is not None
    assert leads_to(found, "a.example.net", Head()) is None
    assert leads_to(found, "x.b.example.com", Head()) is not None


def test_no_host_name_in_common_is_told() -> None:
    front = gateway("front", {**HTTP, "hostname": "b.com"})
    assert attachment(front, route(hosts=["a.com"])).fault.reason == "NoMatchingListenerHostname"


def test_a_request_belongs_to_one_listener_only() -> None:
    """Listener isolation: routes of a general listener do not take what belongs to a specific one."""
    front = gateway("front", {**HTTP, "name": "any"}, {**HTTP, "name": "one", "hostname": "one.com"})
    wide = route("wide", parents=[{"name": "front", "sectionName": "any"}])
    found = translate(front, wide)
    assert leads_to(found, "two.com", Head()) is not None
    assert leads_to(found, "one.com", Head()) is None


def test_routes_are_counted_once_for_each_listener() -> None:
    twice = route(parents=[{"name": "front"}, {"name": "front", "sectionName": "a"}])
    other = route("other", parents=[{"name": "front", "sectionName": "b"}])
    counts = translate(two(), twice, other).gateways[api.ObjectKey("shop", "front")].attached
    assert counts == {"a": 1, "b": 2}


def test_a_rule_that_is_not_supported_leaves_the_others() -> None:
    broken = {"matches": [{"path": {"type": "RegularExpression", "value": "("}}]}
    mine = route("r", broken, {"matches": [{"path": {"value": "/ok"}}]})
    found = translate(gateway(), mine)
    state = found.routes[api.ObjectKey("shop", "r")]
    [fault] = state.rules.unsupported
    assert fault.reason == "UnsupportedValue"
    assert fault.message.startswith("spec.rules[0].matches[0].path.value")
    assert state.is_accepted
    assert leads_to(found, "h", Head("/ok")) == "HTTPRoute/shop/r rules[1]"
    alone = translate(gateway(), route("r", broken)).routes[api.ObjectKey("shop", "r")]
    assert not alone.is_accepted
