"""Properties of quantities that hold for every value, not only those in a table."""

import contextlib
import re
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kubeschema import quantity
from headgate.kubeschema.quantity import Quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
    **{f"e{exponent}": Fraction(10) ** exponent for exponent in range(-12, 25)},
}
TEXTS = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**20),
    st.one_of(st.just(""), st.from_regex(r"\A\.[0-9]{0,14}\Z")),
    st.sampled_from(sorted(SUFFIXES)),
)


def exactly(found: Quantity) -> Fraction:
    return found.unscaled * Fraction(10) ** found.exponent


@settings(deadline=None)
@given(TEXTS)
def test_printing_and_reading_gives_the_same(text: str) -> None:
    """What is printed reads as the same number; the canonical form is a fixed point and has no fraction."""
    found = quantity.parse(text)
    assert quantity.parse(str(found)) == found
    canonical = found.canonical()
    assert quantity.parse(canonical).canonical() == canonical
    assert "." not in canonical


@settings(deadline=None)
@given(TEXTS)
def test_the_number_is_exact_down_to_nano(text: str) -> None:
    """The value is that of the text, up to the next billionth away from zero and the cap of binary ones."""
    match = re.fullmatch(r"([+-]?)([0-9]+\.?[0-9]*)(.*)", text)
    assert match is not None
    wanted = Fraction(match[2].removesuffix(".")) * SUFFIXES[match[3]]
    wanted = Fraction(-(-wanted * 10**9 // 1), 10**9)
    if match[3].endswith("i"):
        wanted = min(wanted, Fraction(2**63 - 1))
    assert exactly(quantity.parse(text)) == (-wanted if match[1] == "-" else wanted)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_order_and_sums_are_those_of_the_numbers(one: str, other: str) -> None:
    """Comparison, addition and subtraction agree with exact arithmetic."""
    left, right = quantity.parse(one), quantity.parse(other)
    assert (left < right) == (exactly(left) < exactly(right))
    assert (left == right) == (exactly(left) == exactly(right))
    assert exactly(left + right) == exactly(left) + exactly(right)
    assert exactly(left - right) == exactly(left) - exactly(right)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.eEinumkKMGTP+- ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail in another way, and what it reads prints as the same number."""
    with contextlib.suppress(quantity.QuantityError):
        found = quantity.parse(text)
        assert quantity.parse(str(found)) == found


@settings(deadline=None)
@given(st.from_regex(quantity.SCHEMA["pattern"], alphabet=st.characters(codec="ascii")))
def test_the_schema_promises_no_more_than_the_parser_reads(text: str) -> None:
    """What an API server lets into a field by its pattern is a quantity, but for absurd exponents."""
    exponent = re.search(r"[eE][+-]?0*([0-9]+)\s*$", text)
    if text.endswith("\n") or (exponent and len(exponent[1]) > 9):
        return
    quantity.parse(text)
