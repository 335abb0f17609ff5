"""Go's durations ("1h2m3.5s"), because Go programs write and read every duration in a Kubernetes object.

Internally a duration is an integer number of nanoseconds (Go's int64), so that text, number and text again
agree exactly; `parse` and `format` convert to and from seconds for comparison with clocks. Parsing, errors
and formatting follow `time.ParseDuration` and `time.Duration.String` (golang.org/pkg/time).
"""

import math
import re
from typing import Any, Final

__all__ = ["SCHEMA", "DurationError", "format", "format_ns", "meant", "parse", "parse_ns"]

_SECOND = 1_000_000_000
_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_LARGEST = 1 << 63  # magnitude of the smallest int64; the largest is one less
_INT64_DIGITS = 19
_FRACTION_DIGITS = 300  # digits after these add nothing to a float64
_LONGEST_SHOWN = 64
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")

_LONGEST_MEANT = 64
_MEANT_TERM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([A-Za-zµμ]+)[ ,]*")
_MEANT_UNITS = {
    **{unit: unit for unit in _UNITS_NS},
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs"), "ms"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
}
_MEANT_HOURS = {
    **dict.fromkeys(("d", "day", "days"), 24),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 24),
}
"""Go has no unit longer than an hour."""

SCHEMA: Final[dict[str, Any]] = {
    "pattern": r"^([+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0)$",
}
"""Schema of a field that holds a duration."""


class DurationError(ValueError):
    """The text is not a valid Go duration."""


def parse(text: str) -> float:
    """Seconds in a Go duration such as "1.5s"; raises DurationError."""
    return parse_ns(text) / _SECOND


def parse_ns(text: str) -> int:
    """Nanoseconds in a Go duration, within int64; raises DurationError with Go's message."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise _invalid(text)
    total = position = 0
    while position < len(unsigned):
        term = _TERM.match(unsigned, position)
        assert term is not None  # every part of a term may be empty
        total += _term_ns(*term.groups(default=""), text=text)
        if total > _LARGEST:
            raise _invalid(text)
        position = term.end()
    if text[0] == "-":
        return -total
    if total == _LARGEST:
        raise _invalid(text)
    return total


def meant(text: str) -> str:
    """The Go duration that a text most likely stands for: "24h" for "1d"; "" if that is unclear."""
    written, rest = "", text.strip()
    if len(rest) > _LONGEST_MEANT:
        return ""
    hours = 0.0
    while rest:
        term = _MEANT_TERM.match(rest)
        if term is None:
            return ""
        number, unit = term.groups()
        unit = unit if unit == "M" else unit.lower()  # an M may be minutes, months or a million
        if unit in _MEANT_HOURS:
            hours += float(number) * _MEANT_HOURS[unit]
        elif _MEANT_UNITS.get(unit) == "h":
            hours += float(number)
        elif unit in _MEANT_UNITS:
            written += number + _MEANT_UNITS[unit]
        else:
            return ""
        rest = rest[term.end() :]
    found = (f"{hours:.9f}".rstrip("0").rstrip(".") + "h" if hours else "") + written
    try:
        parse_ns(found)
    except DurationError:
        return ""
    return found


def _term_ns(whole: str, fraction: str, unit: str, *, text: str) -> int:
    """One number with its unit, as in the 2m of 1h2m. Errors are found in the same order as in Go."""
    digits = whole.lstrip("0")
    number = int(digits or "0") if len(digits) <= _INT64_DIGITS else _LARGEST + 1
    if number > _LARGEST or (not whole and not fraction):
        raise _invalid(text)
    if not unit:
        raise DurationError(f"time: missing unit in duration {_quote(text)}")
    if unit not in _UNITS_NS:
        raise DurationError(f"time: unknown unit {_quote(unit)} in duration {_quote(text)}")
    return number * _UNITS_NS[unit] + _fraction_ns(fraction, _UNITS_NS[unit])


def _fraction_ns(digits: str, unit_ns: int) -> int:
    """The nanoseconds of a fraction. Like Go, it reads as many digits as an int64 holds and multiplies in
    float64, which rounds."""
    value, scale = 0, 1.0
    for digit in digits[:_FRACTION_DIGITS]:
        if value > (_LARGEST - 1) // 10:
            break
        longer = value * 10 + int(digit)
        if longer > _LARGEST:
            break
        value, scale = longer, scale * 10
    return int(float(value) * (float(unit_ns) / scale))


def format(seconds: float) -> str:
    """Format seconds as Go does, to the nanosecond."""
    if not math.isfinite(seconds):
        raise DurationError(f"a duration must be a finite number of seconds, not {seconds}")
    return format_ns(round(seconds * _SECOND))


def format_ns(nanoseconds: int) -> str:
    """Format nanoseconds as Go does: "0s", "100ms", "1h0m0.5s"."""
    if not -_LARGEST <= nanoseconds < _LARGEST:
        raise DurationError(f"a duration must fit into 64 bits of nanoseconds (292 years), not {nanoseconds}")
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest == 0:
        return "0s"
    if rest < _SECOND:
        unit = "ns" if rest < 1_000 else "µs" if rest < 1_000_000 else "ms"
        return f"{sign}{_decimal(rest, _UNITS_NS[unit])}{unit}"
    minutes, rest = divmod(rest, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(value: int, unit: int) -> str:
    """value / unit as an exact decimal without trailing zeros; unit is a power of ten."""
    whole, rest = divmod(value, unit)
    fraction = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def _invalid(text: str) -> DurationError:
    return DurationError(f"time: invalid duration {_quote(text)}")


def _quote(text: str) -> str:
    """As Go shows it: bytes that are not printable ASCII in hex. Truncated if long."""
    shown = "".join(_quoted(character) for character in text[:_LONGEST_SHOWN])
    return f'"{shown}..."' if len(text) > _LONGEST_SHOWN else f'"{shown}"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if " " <= character < "\x80":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass"))
