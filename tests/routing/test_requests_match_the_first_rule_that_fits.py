"""Which rule of which route serves a request: cases R1 to R13 of the acceptance table."""

import pytest

from headgate import routing


def to(pool: str, weight: int = 100, **match: object) -> dict[str, object]:
    rule: dict[str, object] = {"name": pool, "targetModels": [{"modelServerName": pool, "weight": weight}]}
    return {**rule, "modelMatch": match} if match else rule


def chosen(routes, model="m", path="/v1/chat/completions", **headers):
    """The route and rule for a request, as "route/rule"."""
    given = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    snapshot = routing.translate(routes, [], [])
    match = routing.match(snapshot, model, path, lambda name: given.get(name, ""))
    return match and f"{match.route.key.name}/{match.rule.name}"


def test_oldest_route_serves(route):
    """R1: of two routes for a model the older serves; when it is deleted, the younger does."""
    a, b = route("z-older", rules=[to("one")]), route("a-younger", rules=[to("two")])
    assert chosen([b, a]) == "z-older/one"
    assert chosen([b]) == "a-younger/two"


def test_routes_of_one_second_are_ordered_by_name(route):
    """Equal ages are told apart by namespace and name, so that every gateway decides alike."""
    made = [
        route(name, rules=[to(name)], metadata={"namespace": ns, "creationTimestamp": "2026-01-01T00:00:00Z"})
        for ns, name in (("n2", "a"), ("n1", "c"), ("n1", "b"))
    ]
    assert chosen(made) == "b/b"


def test_route_whose_rules_do_not_fit_lets_the_next_try(route):
    """A younger route gets the requests that no rule of the older fits."""
    older = route("older", rules=[to("one", headers={"tier": {"exact": "gold"}})])
    younger = route("younger", rules=[to("two")])
    assert chosen([older, younger]) == "younger/two"
    assert chosen([older, younger], tier="gold") == "older/one"


def test_rules_are_tried_in_order(route):
    """R2: the first rule that fits serves; a rule without conditions fits all."""
    routes = [route("r", rules=[to("s7", headers={"user-type": {"exact": "premium"}}), to("s1")])]
    assert chosen(routes, user_type="premium") == "r/s7"
    assert chosen(routes, user_type="basic") == chosen(routes) == "r/s1"


def test_all_conditions_of_a_rule_must_hold(route):
    """R3: headers and path and body, not one of them."""
    conditions = {
        "headers": {"A": {"exact": "a"}},
        "uri": {"prefix": "/v1/chat"},
        "body": {"model": "m"},
    }
    routes = [route("r", rules=[to("s", **conditions)], loraAdapters=["l"])]
    assert chosen(routes, a="a") == "r/s"
    assert chosen(routes, path="/v1/completions", a="a") is None
    assert chosen(routes, a="b") is None
    assert chosen(routes, model="l", a="a") is None


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("globex-prod", True),
        ("acme-prod", True),
        ("initech-prod", False),
        ("x-acme-prod", False),
        ("", False),
    ],
)
def test_regular_expressions(route, value, fits):
    """R4: RE2 expressions, searched anywhere unless they are anchored."""
    anchored = [route("r", rules=[to("s", headers={"org": {"regex": "^(acme|globex)-prod$"}})])]
    assert (chosen(anchored, org=value) == "r/s") is fits
    loose = [route("r", rules=[to("s", headers={"org": {"regex": "-prod"}})])]
    assert (chosen(loose, org=value) == "r/s") is value.endswith("-prod")


def test_expression_that_is_none_never_fits(route):
    """R5: the rule is left out and reported by its place; those around it work."""
    rules = [to("a", headers={"x": {"exact": "1"}}), to("b", uri={"regex": "^(unclosed"}), to("c")]
    routes = [route("r", rules=rules)]
    assert chosen(routes) == "r/c"
    assert chosen(routes, x="1") == "r/a"
    problems = routing.translate(routes, [], []).problems
    assert [p.field for p in problems if "expression" in p.message] == ["spec.rules[1].modelMatch"]
    dangling = [p.field for p in problems if "no ModelServer" in p.message]
    assert dangling == [f"spec.rules[{i}].targetModels[0].modelServerName" for i in (0, 1, 2)]


def test_empty_condition_fits_anything(route):
    """R6: a match that says nothing excludes nothing, not even a missing header."""
    routes = [route("r", rules=[to("s", headers={"x": {}}, uri={})])]
    assert chosen(routes) == chosen(routes, x="y") == "r/s"


def test_exact_goes_before_prefix_before_expression(route):
    """R7: of several ways in one condition, the strictest decides."""
    both = [route("r", rules=[to("s", headers={"x": {"exact": "a", "prefix": "b", "regex": "."}})])]
    assert chosen(both, x="a") == "r/s"
    assert chosen(both, x="b") is None
    prefix = [route("r", rules=[to("s", headers={"x": {"prefix": "b", "regex": "^a"}})])]
    assert chosen(prefix, x="ba") == "r/s"
    assert chosen(prefix, x="a") is None


def test_missing_header_is_an_empty_one(route):
    """An exact empty value and any expression that an empty string fits hold without the header."""
    assert chosen([route("r", rules=[to("s", headers={"x": {"exact": ""}})])]) == "r/s"
    assert chosen([route("r", rules=[to("s", headers={"x": {"regex": ".*"}})])]) == "r/s"


def test_targets_without_a_weight_weigh_the_same(route):
    """R10: an unset weight is 100, beside whatever others say."""
    rule = {"targetModels": [{"modelServerName": "a"}, {"modelServerName": "b", "weight": 50}]}
    snapshot = routing.translate([route("r", rules=[rule])], [], [])
    assert [t.weight for t in snapshot.models["m"][0].rules[0].targets] == [100, 50]


def test_adapters(route):
    """R11: an adapter's name finds its route, and is known to be an adapter's."""
    routes = [
        route("r", rules=[to("s")], loraAdapters=["adapter"]),
        route("only", None, loraAdapters=["other"]),
    ]
    snapshot = routing.translate(routes, [], [])
    for model, adapter in (("m", False), ("adapter", True), ("other", True)):
        found = routing.match(snapshot, model, "/", lambda name: "")
        assert found is not None
        assert found.is_adapter is adapter
    assert snapshot.names() == ["adapter", "m", "other"]


def test_name_of_a_model_is_not_looked_up_among_adapters(route):
    """R13: where a route is for the name as a model, its rules alone decide."""
    routes = [
        route("r", rules=[to("s", headers={"x": {"exact": "1"}})]),
        route("lora", "base", rules=[to("t")], loraAdapters=["m"]),
    ]
    assert chosen(routes) is None


def test_unknown_model(route):
    """R14: no route, no match."""
    assert chosen([route("r")], model="other") is None
    assert chosen([]) is None
