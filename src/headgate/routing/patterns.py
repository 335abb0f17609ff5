"""Conditions on a request: strings matched exactly, by prefix, or by a linear-time regular expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate import api
from headgate.kubeschema import regex

Headers = Callable[[bytes], str]
"""Gives the value of a header by its lower-case name, "" where the request has none."""


class InvalidPatternError(ValueError):
    """A regular expression that RE2 does not take, or that is too large."""


def as_text(value: str) -> str:
    """A value as UTF-8, from its bytes decoded as Latin-1."""
    return value.encode("latin-1").decode(errors="replace")


class TooCostlyError(Exception):
    """To find the rule of a request takes more work than one request may cause."""


MAX_STEPS: Final = 2_000_000
"""Of work for one request, some 25 ms at worst: a step is one instruction of an expression at a character."""
CONDITION_STEPS: Final = 200
"""What a rule and each of its conditions cost besides: headers are looked up and values decoded."""


class Work:
    """What finding the rule of one request may still cost, however many routes and conditions there are."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Raises TooCostlyError once all is spent."""
        self.left -= steps
        if self.left < 0:
            raise TooCostlyError(f"more than {MAX_STEPS} steps")


class StringPattern(msgspec.Struct, frozen=True):
    """One string condition. Of several fields set, exact goes before prefix, and prefix before regex."""

    exact: str | None = None
    prefix: str | None = None
    regex: Any = None
    """A compiled RE2 expression, searched unanchored."""
    longest: int = 1 << 20
    """Characters that the expression is searched in; it never matches a longer value."""

    def cost(self, value: str) -> int:
        """Steps that comparing a value takes at most."""
        if self.regex is None or len(value) > self.longest:
            return CONDITION_STEPS + len(value)
        return CONDITION_STEPS + len(value) * int(self.regex.programsize)

    def fits(self, value: str) -> bool:
        """Whether a value fits, given as its bytes decoded as Latin-1. They are compared with the UTF-8 of a
        condition, so that no other text has the same bytes."""
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
    """Headers and path and model must all fit. Header names are lower case."""

    headers: tuple[tuple[bytes, StringPattern], ...] = ()
    path: StringPattern | None = None
    model: str | None = None

    def fits(self, model: str, path: str, headers: Headers, work: Work) -> bool:
        """Whether a request fits; a missing header counts as an empty value. Raises TooCostlyError."""
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


def compile_string(match: api.StringMatch) -> StringPattern:
    """Raises InvalidPatternError for an expression that RE2 does not take."""
    if match.exact is None and match.prefix is None and match.regex is not None:
        expression = _compile_regex(match.regex)
        return StringPattern(regex=expression, longest=regex.longest_text(expression))
    return StringPattern(match.exact, match.prefix)


def _compile_regex(expression: str) -> Any:
    try:
        return regex.compiled(expression)
    except regex.RegexError as error:
        raise InvalidPatternError(str(error)) from error
