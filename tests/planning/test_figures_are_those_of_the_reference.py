"""Names, ratios, and what is made of measured values."""

import math

import pytest

from headgate.planning import figures


@pytest.mark.parametrize(
    ("variant_id", "name"),
    [
        ("meta/llama-3.1-8b-A100-1", "meta-llama-3-1-8b-a100-1"),
        ("Qwen/Qwen2.5_7B-H100-2", "qwen-qwen2-57b-h100-2"),
        ("model@name/variant_1", "modelname-variant1"),
        ("-model/variant-", "model-variant"),
        ("model name variant 1", "modelnamevariant1"),
        ("", ""),
        ("@#$%", ""),
    ],
)
def test_a_name_is_suggested(variant_id, name) -> None:
    """In lower case, with dashes, and without what a name cannot have."""
    assert figures.suggested_name(variant_id) == name


@pytest.mark.parametrize(
    ("current", "desired", "ratio"), [(2, 5, 2.5), (0, 3, 3), (4, 4, 1), (6, 2, 1 / 3), (0, 0, 0)]
)
def test_the_ratio_of_replicas_has_a_value_from_zero_on(current, desired, ratio) -> None:
    """The desired number, where nothing can be multiplied."""
    assert figures.ratio(current, desired) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("text", "value"), [("10.5", 10.5), ("50.0", 50), ("", 0), ("text", 0), ("-3", 0), ("NaN", 0)]
)
def test_measured_values_are_numbers_of_at_least_zero(text, value) -> None:
    """Everything else counts as nothing."""
    assert figures.measured(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("100", 100), ("200", 200), ("150.9", 150), ("99999999999999", 2147483647), ("-1", 0), ("1.9", 1.9)],
)
def test_tokens_are_whole_where_it_makes_no_difference(text, value) -> None:
    """Up to the largest number of 32 bits."""
    assert figures.tokens(text) == value


@pytest.mark.parametrize(
    ("value", "fixed"), [(math.nan, 0), (math.inf, 0), (-math.inf, 0), (5.5, 5.5), (0, 0), (-3, -3)]
)
def test_what_is_no_number_is_zero(value, fixed) -> None:
    """Everything else stays."""
    assert figures.finite(value) == fixed


def test_important_classes_have_large_priorities_of_objectives() -> None:
    """The order is kept, and none is negative, which would let the gateway drop requests."""
    found = [figures.objective_priority(priority) for priority in range(1, 101)]
    assert found == sorted(set(found), reverse=True)
    assert (found[0], found[-1]) == (99, 0)
    assert figures.objective_priority(0) == 99
    assert figures.objective_priority(1000) == 0
