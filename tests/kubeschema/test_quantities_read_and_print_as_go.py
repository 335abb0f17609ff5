"""What `resource.ParseQuantity` accepts and refuses, and how `Quantity.String` prints it."""

import pytest

from headgate.kubeschema import quantity
from headgate.kubeschema.quantity import Format, Quantity

SI, BINARY, EXPONENT = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT
INT64 = 2**63 - 1

ACCEPTED = {
    "0": (0, 0, SI, "0"),
    "-0": (0, 0, SI, "0"),
    "000": (0, 0, SI, "0"),
    "0Ki": (0, 0, BINARY, "0"),
    "0e5": (0, 0, EXPONENT, "0"),
    "1": (1, 0, SI, "1"),
    "-7": (-7, 0, SI, "-7"),
    "1000": (1, 3, SI, "1k"),
    "10": (1, 1, SI, "10"),
    "0.5": (5, -1, SI, "500m"),
    ".5": (5, -1, SI, "500m"),
    "1000m": (1, 0, SI, "1"),
    "1100m": (11, -1, SI, "1100m"),
    "9.01": (901, -2, SI, "9010m"),
    "0.00050k": (5, -1, SI, "500m"),
    "300.2T": (3002, 11, SI, "300200G"),
    "12E": (12, 18, SI, "12E"),
    "1000E": (1, 21, SI, "1e21"),
    "18446744073709551616": (2**64, 0, SI, "18446744073709551616"),
    # the family of suffixes is kept
    "1Ki": (1024, 0, BINARY, "1Ki"),
    "1024Ki": (2**20, 0, BINARY, "1Mi"),
    "1000Ki": (1024000, 0, BINARY, "1000Ki"),
    "1.5Gi": (1536 * 2**20, 0, BINARY, "1536Mi"),
    "-1.5Gi": (-1536 * 2**20, 0, BINARY, "-1536Mi"),
    "3Ei": (3 * 2**60, 0, BINARY, "3Ei"),
    "1e3": (1, 3, EXPONENT, "1e3"),
    "1e14": (1, 14, EXPONENT, "100e12"),
    "1.3E+6": (13, 5, EXPONENT, "1300e3"),
    "0.5e-2": (5, -3, EXPONENT, "5e-3"),
    # unless it could not say the number
    "0.5Ki": (512, 0, BINARY, "512"),
    ".001Ki": (1024, -3, BINARY, "1024m"),
    "100.035Ki": (10243584, -2, BINARY, "102435840m"),
    # finer than nano is rounded away from zero
    "0.9n": (1, -9, SI, "1n"),
    "3.001n": (4, -9, SI, "4n"),
    "-3.001n": (-4, -9, SI, "-4n"),
    "0.0000000001": (1, -9, SI, "1n"),
    "1.1E-9": (2, -9, EXPONENT, "2e-9"),
    "1e-2000000000": (1, -9, EXPONENT, "1e-9"),
    "0.000000000001Ki": (2, -9, SI, "2n"),
    # binary ones end at int64
    "8Ei": (INT64, 0, BINARY, str(INT64)),
    "-9Ei": (-INT64, 0, BINARY, str(-INT64)),
    "9223372036854775807Ki": (INT64, 0, BINARY, str(INT64)),
    # text that Go takes for canonical, although it isn't
    "1.500": (15, -1, SI, "1.500"),
    "1.": (1, 0, SI, "1."),
    "1.G": (1, 9, SI, "1.G"),
    "100.035k": (100035, 0, SI, "100.035k"),
    "+1": (1, 0, SI, "+1"),
    "01": (1, 0, SI, "01"),
    "1E3": (1, 3, EXPONENT, "1E3"),
    # no digit at all, where the number is small enough
    "Ki": (0, 0, BINARY, "0"),
    "-": (0, 0, SI, "0"),
    ".k": (0, 0, SI, "0"),
}

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC = "unable to parse numeric part of quantity"
SUFFIX = "unable to parse quantity's suffix"
REFUSED = {
    "": FORMAT,
    " 1": FORMAT,
    "1 ": FORMAT,
    "1_000": FORMAT,
    "1.1.M": FORMAT,
    "1+1.0M": FORMAT,
    "0.1am": FORMAT,
    "aoeu": FORMAT,
    "1e3.5": FORMAT,
    "0x10": FORMAT,
    "\u0661": FORMAT,
    "1\n": FORMAT,
    "0.1mi": SUFFIX,
    "1i": SUFFIX,
    "1K": SUFFIX,
    "1ki": SUFFIX,
    "1e": SUFFIX,
    "-3.01e-": SUFFIX,
    "--1": SUFFIX,
    "1e99999999999999999999": SUFFIX,
    "1e2147483648": SUFFIX,
    "Pi": NUMERIC,
    ".Ei": NUMERIC,
    "+e-10": NUMERIC,
    "9" * 1001: NUMERIC,
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted_text_is_read_and_printed_as_go_does(text: str) -> None:
    """Every form that Go reads gives Go's number and family of suffixes, and prints as Go prints it."""
    unscaled, exponent, format, printed = ACCEPTED[text]
    found = quantity.parse(text)
    assert found == Quantity(unscaled, exponent)
    assert found.format is format
    assert str(found) == printed


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:20]))
def test_refused_text_is_refused_in_the_words_of_go(text: str) -> None:
    """What Go refuses is refused with Go's message."""
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.parse(text)
    assert str(caught.value) == REFUSED[text]


def test_whole_numbers_are_read_as_well() -> None:
    """YAML's `targetValue: 5` is a number in the object."""
    assert str(quantity.parse(5)) == "5"
    assert str(quantity.parse(-2000)) == "-2k"


def test_the_canonical_form_is_there_even_where_go_prints_the_text() -> None:
    """Two quantities that say the same have the same canonical form."""
    assert quantity.parse("1.500").canonical() == quantity.parse("1.5").canonical() == "1500m"


def test_quantities_compare_by_number_whatever_their_suffix() -> None:
    """Equal numbers are equal and hash alike; order is that of the numbers, however far apart."""
    assert quantity.parse("1Ki") == quantity.parse("1.024k")
    assert len({quantity.parse(text) for text in ("1", "1000m", "1e0", "1.000")}) == 1
    texts = (
        "-1e2147483646",
        "-5",
        "-1m",
        "0",
        "1n",
        "100m",
        "0.5",
        "1",
        "1k",
        "1Ki",
        "10000T",
        "1e2147483646",
    )
    sizes = [quantity.parse(text) for text in texts]
    shuffled = sizes[5:] + sizes[:5]
    assert sorted(shuffled) == sizes
    assert max(quantity.parse("100Gi"), quantity.parse("10000T")) == quantity.parse("10000T")


def test_sums_take_the_family_of_the_first_that_is_not_zero() -> None:
    """1Gi and 1G are 2073741824 in either order, printed as the first of them is."""
    zero, gibi, giga = (quantity.parse(text) for text in ("0", "1Gi", "1G"))
    assert str(gibi + gibi) == "2Gi"
    assert str(zero + gibi) == str(gibi - zero) == "1Gi"
    assert str(zero - gibi) == "-1Gi"
    assert str(giga + gibi) == "2073741824"
    assert str(gibi * 3) == "3Gi"
    assert str(-quantity.parse("9.01")) == "-9010m"
    assert str(quantity.parse("1Ei") * 1024 * 1024) == "1048576Ei"


def test_whole_numbers_round_away_from_zero() -> None:
    """Whoever wants some gets some: 1m of a CPU is one CPU if CPUs are whole."""
    assert quantity.parse("1m").rounded_up() == 1
    assert quantity.parse("-9.01").rounded_up() == -10
    assert quantity.parse("9.01").rounded_up(-1) == 91
    assert quantity.parse("9.01").rounded_up(2) == 1
    assert quantity.parse("1.5").rounded_up(-3) == 1500
    assert quantity.parse("0").rounded_up(-9) == 0


def test_floats_are_the_nearest_ones() -> None:
    """Metrics are floats; beyond their range a quantity is infinite."""
    assert float(quantity.parse("100m")) == 0.1
    assert float(quantity.parse("1Ki")) == 1024.0
    assert float(quantity.parse("-1e400")) == float("-inf")


def test_numbers_that_nobody_means_cost_nothing() -> None:
    """A sum of the largest and the smallest exponent is refused, not computed."""
    with pytest.raises(quantity.QuantityError, match="more than 4000 digits"):
        quantity.parse("1e2147483647") + quantity.parse("1n")
    with pytest.raises(quantity.QuantityError, match="more than 4000 digits"):
        quantity.parse("1e2147483647").rounded_up()
