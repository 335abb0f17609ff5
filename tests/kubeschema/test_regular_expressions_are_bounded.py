"""Regular expressions of users compile to a bounded program, and are searched in a bounded text."""

import time

import pytest

from headgate import api, routing
from headgate.kubeschema import cel, regex, structural

LARGE = "(abcdefghijklmnopqrst){1000}"
HUGE = r"(\pL\pN\pS){1000}"


@pytest.mark.parametrize(
    ("expression", "size"), [(LARGE, "22004"), (HUGE, "more than 2 MB of"), (r"\pL{100}", "119604")], ids=str
)
def test_a_large_expression_says_its_size_and_the_bound(expression, size):
    with pytest.raises(regex.TooLargeError, match=f"compiles to {size} instructions, and at most 2000"):
        regex.compiled(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "^/v1/(chat/)?completions$",
        "|".join(f"tenant-{place}" for place in range(150)),
        r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
        r"(\w{50}){10}",
    ],
)
def test_ordinary_expressions_are_within_the_bounds(expression):
    assert regex.compiled(expression).programsize <= regex.OF_ROUTES.instructions
    assert regex.compiled(expression, regex.OF_SCHEMAS)


@pytest.mark.parametrize("expression", ["(a{100}){100}", "(a{2,50}b){30}", "a{1001}"])
def test_a_refused_repetition_says_that_bounds_are_multiplied(expression):
    """Each of the two may be small enough by itself."""
    with pytest.raises(regex.RegexError, match=r"invalid repetition size: \{.*at most \{1000\}.*multiplied"):
        regex.compiled(expression)


def test_patterns_of_definitions_are_refused():
    """Where a definition is checked, with the field."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": LARGE}}}
    (fault,) = structural.check(schema, "schema")
    assert fault.field == "schema.properties[a].pattern"
    assert "is too large: it compiles to 22004 instructions, and at most 10000 are allowed" in fault.message()
    assert "valid regular expression" not in fault.message()


@pytest.mark.parametrize(
    "call",
    ["self.matches('{}')", 'size(self.findAll("{}")) > 0', "self.matches(r'{}')"],
)
def test_literals_of_cel_rules_are_refused(call):
    """Where a rule is compiled; expressions that are made while it runs are bounded by its cost."""
    with pytest.raises(cel.CelError, match=r"too large: it compiles to 22004 instructions"):
        cel.Expression(call.format(LARGE))
    assert cel.Expression(call.format("a+")).evaluate("aa") is True


def test_a_rule_with_a_large_expression_never_matches():
    """Stored before there was a bound: it is left out, as one that does not compile, and reported."""
    rule = {"modelMatch": {"uri": {"regex": LARGE}}, "targetModels": [{"modelServerName": "s"}]}
    source = routing_route({"modelName": "m", "rules": [rule]})
    snapshot = routing.translate([source], [], [])
    assert snapshot.models["m"][0].rules == ()
    assert "at most 2000 are allowed" in snapshot.problems[0].message


def routing_route(spec):
    import msgspec

    return msgspec.convert({"metadata": {"name": "r", "namespace": "default"}, "spec": spec}, api.ModelRoute)


@pytest.mark.parametrize("expression", ["(a|b)*a(a|b){300}c", "(((a|b){1,30}a){1,10}c)", "^a*$"])
def test_work_on_one_value_is_bounded(expression):
    """A longer value does not match, and costs nothing; the longest one that is searched costs little."""
    pattern = routing.patterns.compile_string(api.StringMatch(regex=expression), regex.Budget())
    assert pattern.longest * pattern.regex.programsize <= 1_000_000
    value = ("ab" * pattern.longest)[: pattern.longest]
    began = time.process_time()
    pattern.fits(value)
    assert time.process_time() - began < 1  # it takes some 10 ms
    assert pattern.fits("a" * (pattern.longest + 1)) is False


MANY_CLASSES = "|".join([r"\pL"] * 997) + "x"
"""It compiles to 1,204 instructions, in about 0.1 s."""


def test_unicode_classes_are_counted_before_they_are_compiled():
    with pytest.raises(regex.TooLargeError, match=r"has 997 Unicode classes \(\\p\), and at most 16"):
        regex.compiled(MANY_CLASSES)
    assert regex.compiled("|".join([r"\pL"] * 16))


def test_all_expressions_of_an_object_share_a_budget():
    """Equal ones count once; one that is too large has to be measured, which counts much."""
    budget = regex.Budget()
    assert all(budget.compiled("^same$") for _ in range(1_000))
    with pytest.raises(regex.TooLargeError, match="take too long to compile"):
        [budget.compiled(f"^tenant-{number}$") for number in range(100)]
    assert budget.is_exceeded
    assert budget.compiled("^same$")

    budget = regex.Budget()
    for number in range(3):
        with pytest.raises(regex.TooLargeError, match="instructions"):
            budget.compiled(f"{LARGE}{number}")
    with pytest.raises(regex.TooLargeError, match="instructions"):
        budget.compiled(f"{LARGE}0")
    with pytest.raises(regex.TooLargeError, match="take too long to compile"):
        budget.compiled(f"{LARGE}3")


def hostile(rules=16, headers=100):
    """A route with 1,600 expressions that are expensive to compile."""
    return [
        {
            "modelMatch": {
                "headers": {f"h{h}": {"regex": f"{MANY_CLASSES[:4000]}{r}y{h}"} for h in range(headers)}
            },
            "targetModels": [{"modelServerName": "s"}],
        }
        for r in range(rules)
    ]


def cheap(rules=16, headers=100):
    """As many that are cheap one by one."""
    return [
        {
            "modelMatch": {"headers": {f"h{h}": {"regex": f"^a{r}b{h}$"} for h in range(headers)}},
            "targetModels": [{"modelServerName": "s"}],
        }
        for r in range(rules)
    ]


@pytest.mark.parametrize("rules", [hostile(), cheap()], ids=["hostile", "cheap"])
def test_a_route_costs_a_gateway_little_however_many_expressions_it_has(rules):
    """Other clients wait while a route is translated. Rules beyond the budget are left out, and reported."""
    last = {"modelMatch": {"uri": {"prefix": "/v1"}}, "targetModels": [{"modelServerName": "s"}]}
    source = routing_route({"modelName": "m", "rules": [*rules[:15], last]})
    began = time.process_time()
    snapshot = routing.translate([source], [], [])
    assert time.process_time() - began < 2  # some 10 ms; all of them would take a minute, or a second
    assert len(snapshot.models["m"][0].rules) == 1
    assert {problem.reason for problem in snapshot.problems} >= {"InvalidPattern"}
