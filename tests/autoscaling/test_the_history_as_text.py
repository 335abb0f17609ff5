"""The history travels as JSON, in the status of an object that others can write."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.autoscaling import (
    Bounds,
    History,
    MetricTarget,
    Observation,
    Panic,
    Param,
    Policy,
    Rate,
    Total,
    decide,
    split,
)

POLICY = Policy((MetricTarget("load", 1.0),), down=Rate(window_s=300), panic=Panic())

numbers = st.sampled_from([0, 1, 2.5, -1, 900, 1e9, 1e300, None]) | st.floats(allow_nan=False)
texts = st.sampled_from(["a", "b"])
entries = st.lists(st.tuples(numbers, st.integers(-2, 50)), max_size=4)
scores = st.tuples(numbers, numbers, st.integers(-2, 100), st.booleans())
histories = st.fixed_dictionaries(
    {},
    optional={
        "highs": entries,
        "lows": entries,
        "most": entries,
        "fewest": entries,
        "recommended_at": numbers,
        "panic_until": numbers,
        "passed_at": numbers,
        "starts": st.fixed_dictionaries(
            {}, optional={"durations_s": st.lists(numbers, max_size=3), "coming": st.lists(texts)}
        ),
        "forecast": st.fixed_dictionaries(
            {},
            optional={
                "at": numbers,
                "level": numbers,
                "slope": numbers,
                "checks": st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=3),
                "trend": scores,
                "day": scores,
                "slots": st.lists(numbers, max_size=3) | st.just([1.0] * 96),
                "slot_mean": numbers,
                "slot_count": st.integers(-2, 100),
            },
        ),
        "capacities": st.lists(st.tuples(texts, numbers, numbers, numbers), max_size=3),
    },
)


@given(st.text())
def test_any_text_is_a_history_or_an_error(text: str) -> None:
    try:
        History.from_json(text)
    except ValueError as error:
        assert "history" in str(error)


def test_a_text_that_is_too_long_is_not_read() -> None:
    with pytest.raises(ValueError, match="65538 characters is longer than 65536"):
        History.from_json('"' + "x" * 65_536 + '"')


@pytest.mark.parametrize(
    "text", ['{"highs": [[9e9, 9], [5, 1]]}', '{"fewest": [[9e9, 0], [5, 1]]}', '{"x": ' + "[" * 60_000]
)
def test_what_would_never_be_forgotten_or_read_is_an_error(text: str) -> None:
    """An entry in the future before one in the past would bound replicas for ever."""
    with pytest.raises(ValueError, match="not a history"):
        History.from_json(text)


def test_an_empty_history_is_short() -> None:
    assert History.empty().to_json() == "{}"
    assert History.from_json("{}") == History.empty()


@settings(max_examples=300)
@given(histories, st.floats(0, 1e4))
def test_whatever_is_written_there_a_pass_keeps_to_the_bounds(
    written: dict[str, object], load: float
) -> None:
    try:
        history = History.from_json(json.dumps(written))
    except ValueError:
        return
    params = [
        Param("a", Bounds(1, 9), 1, 2, 2, served=5.0),
        Param("b", Bounds(0, 9), 3, 2, 1, served=9.0),
    ]
    for step in range(3):
        observation = Observation(1_000_000.0 + 15 * step, 4, 4, totals={"load": Total(load)})
        decision, after = decide(POLICY, Bounds(1, 9), history, observation)
        found, history = split(POLICY, params, history, observation)
        assert 1 <= decision.desired <= 9
        assert 1 <= found.decision.desired <= 18
        assert History.from_json(after.to_json()) == after
        history = History.from_json(history.to_json())
