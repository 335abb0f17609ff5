"""Conditions on a request: strings matched exactly, by prefix, or by a linear-time regular expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate import api
from headgate.api import regex

Headers = Callable[[bytes], str]
"""Gives the value of a header by its lower-case name, "" where the request has none."""


class InvalidPatternError(ValueError):
    """A regular expression that RE2 does not take, or that is too large."""


def as_text(value: str) -> str:
    """A value as UTF-8, from its bytes decoded as Latin-1."""
    return value.encode("latin-1").decode(errors="replace")


class StringPattern(msgspec.Struct, frozen=True):
    """One string condition. Of several fields set, exact goes before prefix, and prefix before regex (R7)."""

    exact: str | None = None
    prefix: str | None = None
    regex: Any = None
    """A compiled RE2 expression, searched unanchored (R4)."""
    longest: int = 1 << 20
    """Characters that the expression is searched in; it never matches a longer value."""

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

    def fits(self, model: str, path: str, headers: Headers) -> bool:
        """Whether a request fits; a missing header counts as an empty value."""
        if self.model is not None and model != self.model:
            return False
        if self.path is not None and not self.path.fits(path):
            return False
        return all(pattern.fits(headers(name)) for name, pattern in self.headers)


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
