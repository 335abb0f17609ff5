"""What `time.ParseDuration` accepts and refuses, and how `Duration.String` prints it."""

import pytest

from headgate.kubeschema import duration

MICRO_SIGN, GREEK_MU = "\u00b5", "\u03bc"
SECOND = 10**9
ACCEPTED = {
    "0": (0, "0s"),
    "+0": (0, "0s"),
    "-0": (0, "0s"),
    "0s": (0, "0s"),
    "5s": (5 * SECOND, "5s"),
    "+5s": (5 * SECOND, "5s"),
    "-5s": (-5 * SECOND, "-5s"),
    "100ms": (100_000_000, "100ms"),
    "1h2m3.5s": (3723_500_000_000, "1h2m3.5s"),
    ".5s": (500_000_000, "500ms"),
    "1.s": (SECOND, "1s"),
    "1.0s": (SECOND, "1s"),
    "-.5s": (-500_000_000, "-500ms"),
    "11us": (11_000, f"11{MICRO_SIGN}s"),
    f"12{MICRO_SIGN}s": (12_000, f"12{MICRO_SIGN}s"),
    f"13{GREEK_MU}s": (13_000, f"13{MICRO_SIGN}s"),
    "1100ns": (1_100, f"1.1{MICRO_SIGN}s"),
    "2200us": (2_200_000, "2.2ms"),
    "3300ms": (3_300_000_000, "3.3s"),
    "1h": (3600 * SECOND, "1h0m0s"),
    "90m": (5400 * SECOND, "1h30m0s"),
    "1s1h": (3601 * SECOND, "1h0m1s"),
    "1s1s": (2 * SECOND, "2s"),
    "-1.5h": (-5400 * SECOND, "-1h30m0s"),
    "00000000000000000000001s": (SECOND, "1s"),
    "1." + "0" * 400 + "9s": (SECOND, "1s"),
    "0.3333333333333333333h": (1200 * SECOND, "20m0s"),
    "0.100000000000000000000h": (360 * SECOND, "6m0s"),
    "0.9223372036854775807h": (3320413933267, "55m20.413933267s"),
    "0.830103483285477580700h": (2988372539827, "49m48.372539827s"),
    "9223372036854775807ns": (2**63 - 1, "2562047h47m16.854775807s"),
    "2562047h47m16.854775807s": (2**63 - 1, "2562047h47m16.854775807s"),
    "-9223372036854775808ns": (-(2**63), "-2562047h47m16.854775808s"),
}
REFUSED = {
    "": 'time: invalid duration ""',
    "3": 'time: missing unit in duration "3"',
    "1d": 'time: unknown unit "d" in duration "1d"',
    "1h 2m": 'time: unknown unit "h " in duration "1h 2m"',
    " 1s": 'time: invalid duration " 1s"',
    "1 s": 'time: unknown unit " s" in duration "1 s"',
    "1S": 'time: unknown unit "S" in duration "1S"',
    "-": 'time: invalid duration "-"',
    "--1s": 'time: invalid duration "--1s"',
    ".": 'time: invalid duration "."',
    ".s": 'time: invalid duration ".s"',
    "+.s": 'time: invalid duration "+.s"',
    "s": 'time: invalid duration "s"',
    "1e3s": 'time: unknown unit "e" in duration "1e3s"',
    "1_000s": 'time: unknown unit "_" in duration "1_000s"',
    "\u0661s": 'time: invalid duration "\\xd9\\xa1s"',
    "1\u00b5": 'time: unknown unit "\\xc2\\xb5" in duration "1\\xc2\\xb5"',
    "1\n": 'time: unknown unit "\\x0a" in duration "1\\x0a"',
    '1"': 'time: unknown unit "\\"" in duration "1\\""',
    "1..5s": 'time: missing unit in duration "1..5s"',
    "5.": 'time: missing unit in duration "5."',
    "3000000h": 'time: invalid duration "3000000h"',
    "9223372036854775808ns": 'time: invalid duration "9223372036854775808ns"',
    "9223372036854775.808us": 'time: invalid duration "9223372036854775.808us"',
    "9223372036854775809x": 'time: invalid duration "9223372036854775809x"',
    "99999999999999999999": 'time: invalid duration "99999999999999999999"',
    "-9223372036854775809ns": 'time: invalid duration "-9223372036854775809ns"',
    "9" * 5000 + "s": 'time: invalid duration "' + "9" * 64 + '..."',
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted_text_is_read_and_printed_as_go_does(text: str) -> None:
    """Every form that Go reads gives Go's number of nanoseconds, and prints in Go's form."""
    nanoseconds, printed = ACCEPTED[text]
    assert duration.parse_ns(text) == nanoseconds
    assert duration.format_ns(nanoseconds) == printed


@pytest.mark.parametrize("text", REFUSED)
def test_refused_text_is_refused_in_the_words_of_go(text: str) -> None:
    """What Go refuses is refused with Go's message, cut where the text is long."""
    with pytest.raises(duration.DurationError) as caught:
        duration.parse_ns(text)
    assert str(caught.value) == REFUSED[text]


def test_seconds_are_floats_at_the_edge() -> None:
    """parse and format speak seconds, to the nanosecond."""
    assert duration.parse("1m0.25s") == 60.25
    assert duration.format(60.25) == "1m0.25s"
    assert duration.format(0.1) == "100ms"


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e10, -1e10])
def test_seconds_that_go_cannot_hold_are_refused(seconds: float) -> None:
    """More than 292 years, and what is no number, is an error and not a wrapped value."""
    with pytest.raises(duration.DurationError):
        duration.format(seconds)


@pytest.mark.parametrize(
    ("written", "meant"),
    {
        "1d": "24h",
        "1 day": "24h",
        "2w": "336h",
        "1.5d": "36h",
        "1d12h30m": "36h30m",
        "1 hour, 5 minutes": "1h5m",
        "30 sec": "30s",
        "1D": "24h",
        "1M": "",
        "1y": "",
        "d": "",
        "": "",
        "5": "",
        "9" * 9 + "w": "",
        "1d" * 1000: "",
    }.items(),
)
def test_what_people_write_instead_is_understood(written, meant):
    """Days and weeks, which Go does not have, and units in words; what could mean several things is not."""
    assert duration.meant(written) == meant
