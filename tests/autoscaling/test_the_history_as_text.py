"""The history travels as JSON, in the status of an object that others can write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling import History


@given(st.text())
def test_any_text_is_a_history_or_an_error(text: str) -> None:
    try:
        History.from_json(text)
    except ValueError as error:
        assert "history" in str(error)


def test_a_text_that_is_too_long_is_not_read() -> None:
    with pytest.raises(ValueError, match="65538 characters is longer than 65536"):
        History.from_json('"' + "x" * 65_536 + '"')


def test_an_empty_history_is_short() -> None:
    assert History.empty().to_json() == "{}"
    assert History.from_json("{}") == History.empty()
