"""The quantity library that Kubernetes gives to the rules of CustomResourceDefinitions."""

import pytest

from headgate.kubeschema import cel


def evaluated(source: str, value: object = None) -> object:
    return cel.compiled(source).evaluate(value)


@pytest.mark.parametrize(
    "source",
    [
        "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "quantity('500m').isLessThan(quantity('1'))",
        "!quantity('1').isLessThan(quantity('1000m'))",
        "quantity('1k') == quantity('1000')",
        "quantity('1') != quantity('1Ki')",
        "quantity('2').compareTo(quantity('1')) == 1 && quantity('1').compareTo(quantity('1000m')) == 0",
        "quantity('-1').sign() == -1 && quantity('0').sign() == 0",
        "quantity('50k').add(quantity('20k')) == quantity('70k')",
        "quantity('50k').sub(20) == quantity('49980')",
        "quantity('50k').add(20).asInteger() == 50020",
        "quantity('50m').isInteger() == false && quantity('5').isInteger()",
        "quantity('9223372036854775807').isInteger() && !quantity('9223372036854775808').isInteger()",
        "quantity('1.5').asApproximateFloat() == 1.5",
        "isQuantity('1.3Gi') && isQuantity('1e3') && !isQuantity('1.3GB') && !isQuantity('')",
        "[quantity('1'), quantity('2')].all(q, q.isLessThan(quantity('3')))",
    ],
)
def test_the_library_answers_as_in_kubernetes(source: str) -> None:
    """Comparison, sums and conversion, by number and not by text."""
    assert evaluated(source) is True


@pytest.mark.parametrize(
    "source",
    ["quantity('1.3GB')", "quantity('50m').asInteger()", "quantity('9223372036854775808').asInteger()"],
)
def test_what_is_no_quantity_or_no_integer_is_an_error_of_the_rule(source: str) -> None:
    """A rule that cannot be evaluated refuses the object; it doesn't pass it."""
    with pytest.raises(cel.CelError):
        evaluated(source)


def test_a_rule_bounds_a_field_by_a_quantity() -> None:
    """As a CRD of one's own would write it."""
    rule = "quantity(self.memory).isLessThan(quantity('64Gi'))"
    assert evaluated(rule, {"memory": "32Gi"}) is True
    assert evaluated(rule, {"memory": "65536Mi"}) is False
