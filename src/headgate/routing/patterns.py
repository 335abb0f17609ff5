"""Conditions on a request: strings matched exactly, by prefix, or by a linear-time regular expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate import api
from headgate.kubeschema import regex

Headers = Callable[[bytes], str]
"""Returns the value of a header by its lower-case name, "" if the request has none."""


class InvalidPatternError(ValueError):
    """A regular expression that RE2 rejects, or that is too large."""


def as_text(value: str) -> str:
    """A value as UTF-8, from its bytes decoded as Latin-1."""
    return value.encode("latin-1").decode(errors="replace")


class TooCostlyError(Exception):
    """Matching a request takes more work than one request may cause."""


MAX_STEPS: Final = 2_000_000
"""Work limit per request, about 25 ms at worst: a step is one instruction of an expression at a character."""
CONDITION_STEPS: Final = 200
"""Fixed cost of a rule and of each condition, for looking up headers and decoding values."""


class Work:
    """The work left for matching one request, however many routes and conditions there are."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Raises TooCostlyError once the work is exhausted."""
        self.left -= steps
        if self.left < 0:
            raise TooCostlyError(f"more than {MAX_STEPS} steps")


class StringPattern(msgspec.Struct, frozen=True):
    """One string condition. If several fields are set, exact takes precedence over prefix, and prefix over
    regex."""

    exact: str | None = None
    prefix: str | None = None
    regex: Any = None
    """A compiled RE2 expression, searched unanchored."""
    longest: int = 1 << 20
    """Longest value that the expression is applied to; longer values never match."""

    def cost(self, value: str) -> int:
        """Most steps that comparing a value takes."""
        if self.regex is None or len(value) > self.longest:
            return CONDITION_STEPS + len(value)
        return CONDITION_STEPS + len(value) * int(self.regex.programsize)

    def fits(self, value: str) -> bool:
        """Whether a value, given as its bytes decoded as Latin-1, matches. It is compared as UTF-8, so that
        only the text of the condition has the same bytes."""
        if not value.isascii():
            value = as_text(value)
        if self.exact is not None:
            return value == self.exact
        if self.prefix is not None:
            return value.startswith(self.prefix)
        if self.regex is not None:
            return len(value) <= self.longest and self.regex.search(value) is not None
        return True


class RequestPattern(msgspec.Struct, frozen=True):
    """Headers, path and model must all match. Header names are lower case."""

    headers: tuple[tuple[bytes, StringPattern], ...] = ()
    path: StringPattern | None = None
    model: str | None = None

    def fits(self, model: str, path: str, headers: Headers, work: Work) -> bool:
        """Whether a request matches; a missing header counts as an empty value. Raises TooCostlyError."""
        work.spend(CONDITION_STEPS)
        if self.model is not None and model != self.model:
            return False
        if self.path is not None:
            work.spend(self.path.cost(path))
            if not self.path.fits(path):
                return False
        for name, pattern in self.headers:
            value = headers(name)
            work.spend(pattern.cost(value))
            if not pattern.fits(value):
                return False
        return True


def compile_string(match: api.StringMatch, budget: regex.Budget) -> StringPattern:
    """Raises InvalidPatternError for an expression that RE2 rejects, or that exceeds the budget of its
    object."""
    if match.exact is None and match.prefix is None and match.regex is not None:
        expression = _compile_regex(match.regex, budget)
        return StringPattern(regex=expression, longest=regex.longest_text(expression))
    return StringPattern(match.exact, match.prefix)


def _compile_regex(expression: str, budget: regex.Budget) -> Any:
    try:
        return budget.compiled(expression)
    except regex.RegexError as error:
        raise InvalidPatternError(str(error)) from error
