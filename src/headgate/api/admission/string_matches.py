"""Compares string conditions: does one match everything that another matches?

For regular expressions, a "no" may be wrong, but never a "yes": a missing warning costs less than a false
one.
"""

from __future__ import annotations

from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.kubeschema import regex

__all__ = ["check", "covers", "fits", "is_open"]

_MAX_STEPS = 5_000
"""Limit for trying an expression on the text of another condition: all rules of a route are compared in
pairs."""
_OPEN = frozenset({"", ".*", "^.*", "^.*$", ".*$", "^"})
"""Regular expressions that match every text."""


def check(match: FieldCursor, budget: regex.Budget, found: Findings) -> bool:
    """Reject a regular expression that RE2 rejects or that is too large; warn of an empty condition.

    Returns whether it can be compiled.
    """
    expression = match["regex"]
    if expression.text is not None and not budget.is_exceeded:
        try:
            budget.compiled(expression.text)
        except regex.TooLargeError as error:
            found.invalid(expression, f"is too large a regular expression: {error}")
        except regex.RegexError as error:
            found.invalid(expression, f"must be a regular expression that RE2 takes: {error}")
        else:
            return True
        return False
    if match.value == {}:
        found.warn(match, "is no condition: set exact, prefix or regex, or leave it out")
    return expression.text is None


def is_open(match: FieldCursor) -> bool:
    """Whether it matches every text, including the empty one."""
    exact, prefix, expression = match["exact"].text, match["prefix"].text, match["regex"].text
    if exact is not None:
        return False
    return not prefix if prefix is not None else expression is None or expression in _OPEN


def covers(broad: FieldCursor, narrow: FieldCursor) -> bool:
    """Whether `broad` matches everything that `narrow` matches. Exact takes precedence over prefix, and
    prefix over regex."""
    if is_open(broad):
        return True
    if (exact := narrow["exact"].text) is not None:
        return fits(broad, exact)
    if (prefix := narrow["prefix"].text) is not None:
        return _prefix(broad) is not None and prefix.startswith(_prefix(broad) or "")
    expression = narrow["regex"].text
    return expression is not None and broad["exact"].text is None and _regex(broad) == expression


def _prefix(match: FieldCursor) -> str | None:
    return match["prefix"].text if match["exact"].text is None else None


def _regex(match: FieldCursor) -> str | None:
    return match["regex"].text if match["prefix"].text is None else None


def fits(match: FieldCursor, text: str) -> bool:
    """Whether it matches the text; an expression that does not compile or would take long matches nothing."""
    if is_open(match):
        return True
    if (exact := match["exact"].text) is not None:
        return text == exact
    if (prefix := match["prefix"].text) is not None:
        return text.startswith(prefix)
    try:
        expression = regex.compiled(match["regex"].text or "")
        is_short = len(text) * expression.programsize <= _MAX_STEPS
        return is_short and expression.search(text) is not None
    except regex.RegexError:
        return False
