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
    pattern = routing.patterns.compile_string(api.StringMatch(regex=expression))
    assert pattern.longest * pattern.regex.programsize <= 1_000_000
    value = ("ab" * pattern.longest)[: pattern.longest]
    began = time.process_time()
    pattern.fits(value)
    assert time.process_time() - began < 1  # it takes some 10 ms
    assert pattern.fits("a" * (pattern.longest + 1)) is False
