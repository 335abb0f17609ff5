"""Properties of durations that hold for every value, not only those in a table."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kubeschema import duration

INT64 = st.integers(-(2**63), 2**63 - 1)
UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@settings(deadline=None)
@given(INT64)
def test_printing_and_reading_gives_the_same_number(nanoseconds: int) -> None:
    """Every int64 survives text and back."""
    assert duration.parse_ns(duration.format_ns(nanoseconds)) == nanoseconds


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(sorted(UNITS_NS))), min_size=1, max_size=6))
def test_terms_add_up_in_any_order(terms: list[tuple[int, str]]) -> None:
    """A duration is the sum of its terms, whatever their order and however often a unit comes."""
    text = "".join(f"{number}{unit}" for number, unit in terms)
    assert duration.parse_ns(text) == sum(number * UNITS_NS[unit] for number, unit in terms)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.+-hmsnu\u00b5\u03bcd ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail in another way, and what it reads fits into int64."""
    with contextlib.suppress(duration.DurationError):
        nanoseconds = duration.parse_ns(text)
        assert -(2**63) <= nanoseconds < 2**63
        assert duration.parse_ns(duration.format_ns(nanoseconds)) == nanoseconds


@settings(deadline=None)
@given(st.floats(-1e6, 1e6))
def test_seconds_survive_to_the_nanosecond(seconds: float) -> None:
    """format and parse lose less than a nanosecond."""
    assert abs(duration.parse(duration.format(seconds)) - seconds) < 1e-9
