"""What is told about a request is what happens to it, and telling changes nothing."""

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate import api, routing
from headgate.kubeschema import regex
from headgate.routing import patterns

NAMES = st.sampled_from(["m", "n", "a", ""])
VALUES = st.sampled_from(["", "gold", "golden", "/v1", "/v1/chat", "x\x1b", "\x7f"])
STRINGS = st.builds(
    lambda how, value: patterns.compile_string(api.StringMatch(**{how: value}), regex.Budget()),
    st.sampled_from(["exact", "prefix", "regex"]),
    VALUES.map(re.escape),
)
PATTERNS = st.none() | st.builds(
    patterns.RequestPattern,
    headers=st.lists(st.tuples(st.sampled_from([b"tier", b"org"]), STRINGS), max_size=2).map(tuple),
    path=st.none() | STRINGS,
    model=st.none() | NAMES,
)
TARGETS = st.lists(
    st.builds(
        routing.Target,
        st.sampled_from("pqr").map(lambda name: api.ObjectRef("ModelServer", "d", name)),
        st.integers(0, 5),
    ),
    max_size=3,
).map(tuple)
ROUTES = st.lists(
    st.builds(
        lambda place, rules: routing.Route(
            key=api.ObjectRef("ModelRoute", "d", place),
            name=place,
            model=None,
            adapters=(),
            rules=tuple(rules),
        ),
        st.uuids().map(str),
        st.lists(st.builds(routing.Rule, st.just("rule"), PATTERNS, TARGETS), max_size=3),
    ),
    max_size=3,
).map(tuple)
BY_NAME = st.dictionaries(NAMES, ROUTES, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BY_NAME, BY_NAME, NAMES, VALUES, st.dictionaries(st.sampled_from([b"tier", b"org"]), VALUES))
def test_explanation_agrees_with_the_match(models, adapters, model, path, headers):
    """Whatever the rules and the request: the first rule that is said to fit is the one that serves."""
    snapshot = routing.Snapshot(models=models, adapters=adapters)

    def header(name):
        return headers.get(name, "")

    reading = routing.explain(snapshot, model, path, header)
    assert reading.match == routing.match(snapshot, model, path, header)
    for route in reading.routes:
        for rule in route.rules:
            pattern = rule.rule.pattern
            assert rule.fits == (pattern is None or pattern.fits(model, path, header, patterns.Work()))
            assert rule.unmet.isprintable()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TARGETS, st.integers(0, 50), st.integers(0, 20))
def test_turn_is_seen_without_being_taken(targets, phase, taken):
    """A peek, however often, is what the next request gets, and no turn is taken by it."""
    rule = routing.Rule("rule", None, targets)
    key = api.ObjectRef("ModelRoute", "d", "route")
    splits, untouched = routing.Splits(phase), routing.Splits(phase)
    for _ in range(taken):
        assert splits.next(key, rule) == untouched.next(key, rule)
    for _ in range(5):
        seen = splits.peek(key, rule)
        assert splits.peek(key, rule) == seen
        assert splits.next(key, rule) == untouched.next(key, rule) == seen


def reasons(route, path="/v1/chat", **headers):
    snapshot = routing.translate([route], [], [])
    given = {name.encode(): value for name, value in headers.items()}
    reading = routing.explain(snapshot, "m", path, lambda name: given.get(name, ""))
    return [rule.unmet for rule in reading.routes[0].rules]


def test_reason_is_the_first_condition_that_fails(route):
    """It names the condition, what the request has, and what would fit."""
    made = route(
        "r",
        rules=[
            {"modelMatch": match, "targetModels": [{"modelServerName": "pool"}]}
            for match in (
                {"headers": {"Tier": {"exact": "premium"}}},
                {"headers": {"tier": {"prefix": "prem"}}, "uri": {"exact": "/v1/chat"}},
                {"uri": {"regex": "^/v2/"}},
                {"body": {"model": "other"}, "uri": {"regex": "^/v2/"}},
                {"headers": {"org": {"exact": "acme"}}},
                {"headers": {"tier": {"exact": "basic"}}},
            )
        ],
    )
    assert reasons(made, tier="basic") == [
        'header tier: "basic" is not exactly "premium"',
        'header tier: "basic" does not begin with "prem"',
        'path: "/v1/chat" is not matched by the expression "^/v2/"',
        'body model: "m" is not "other"',
        'header org: "" is not exactly "acme" (the request has none)',
        "",
    ]


def test_routes_that_have_the_name_as_an_adapter(route):
    """They are told apart from those that are asked."""
    a, b = route("a", model="m"), route("b", model="base", loraAdapters=["m"])
    reading = routing.explain(routing.translate([a, b], [], []), "m", "/", lambda _: "")
    assert [found.route.key.name for found in reading.routes] == ["a"]
    assert [found.key.name for found in reading.shadowed] == ["b"]


def test_long_and_hostile_values_are_bounded(route):
    """A value that a client made up is cut and printed without control characters."""
    made = route(
        "r",
        rules=[
            {
                "modelMatch": {"headers": {"tier": {"exact": "x"}}},
                "targetModels": [{"modelServerName": "pool"}],
            }
        ],
    )
    (reason,) = reasons(made, tier="\x1b[2J" + "y" * 10_000)
    assert reason.isprintable()
    assert len(reason) < 400
