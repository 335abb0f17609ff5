"""Matches of HTTPRoute rules: which requests they fit, and which of several that fit takes precedence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from headgate.api import http_routes
from headgate.kubeschema import regex
from headgate.routing.patterns import CONDITION_STEPS, Work, as_text

_EXACT, _REGEX, _PREFIX = 0, 1, 2
"""Kinds of path conditions, in their precedence."""
_KINDS: Final = {
    http_routes.EXACT: _EXACT,
    http_routes.REGULAR_EXPRESSION: _REGEX,
    http_routes.PATH_PREFIX: _PREFIX,
}


class UnsupportedError(ValueError):
    """A condition or filter that Headgate does not support; `field` is its place in the rule."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class RequestHead(Protocol):
    """The head of a request, as far as matches read it. Texts are the bytes as Latin-1."""

    @property
    def method(self) -> bytes: ...
    @property
    def path(self) -> str:
        """Without the query, and without dot segments."""
        ...

    def values(self) -> Mapping[bytes, str]:
        """The headers by their lower-case names; values of one name are joined with commas."""
        ...

    def parameters(self) -> Mapping[str, str]:
        """The query parameters, decoded; of several with one name, the first."""
        ...


class _Text(msgspec.Struct, frozen=True):
    """A condition on a text: equal to `exact`, or matched as a whole by `expression`."""

    exact: str = ""
    expression: Any = None
    longest: int = 0

    def fits(self, value: str, work: Work) -> bool:
        """Raises TooCostlyError."""
        if self.expression is None:
            work.spend(CONDITION_STEPS)
            return value == self.exact
        if len(value) > self.longest:
            return False
        work.spend(CONDITION_STEPS + len(value) * int(self.expression.programsize))
        return self.expression.search(value) is not None


class Match(msgspec.Struct, frozen=True):
    """All conditions of one match."""

    kind: int
    path: str
    """The exact path, or the prefix without a slash at its end; "" for an expression."""
    expression: _Text | None
    method: bytes
    """Empty for any."""
    headers: tuple[tuple[bytes, _Text], ...]
    parameters: tuple[tuple[str, _Text], ...]

    @property
    def prefix(self) -> str | None:
        """The matched prefix, for filters that replace it; None if the path is matched otherwise."""
        return self.path if self.kind == _PREFIX else None

    @property
    def rank(self) -> tuple[int, int, bool, int, int]:
        """Sorts matches by their precedence in the Gateway API: exact paths, expressions (whose place it
        leaves open), the longest prefix; then a method, most headers, most query parameters."""
        size = len(self.path) if self.expression is None else len(self.expression.exact)
        return (self.kind, -size, not self.method, -len(self.headers), -len(self.parameters))

    def fits(self, request: RequestHead, work: Work) -> bool:
        """Whether a request meets all conditions. Raises TooCostlyError."""
        work.spend(CONDITION_STEPS)
        path = request.path
        if self.kind == _EXACT:
            if path != self.path:
                return False
        elif self.expression is not None:
            if not self.expression.fits(as_text(path), work):
                return False
        elif self.path and not (
            path.startswith(self.path) and (len(path) == len(self.path) or path[len(self.path)] == "/")
        ):
            return False
        if self.method and request.method != self.method:
            return False
        return self._fits_rest(request, work)

    def _fits_rest(self, request: RequestHead, work: Work) -> bool:
        if self.headers:
            values = request.values()
            for name, text in self.headers:
                value = values.get(name)
                if value is None or not text.fits(as_text(value), work):
                    return False
        if self.parameters:
            given = request.parameters()
            for parameter, text in self.parameters:
                value = given.get(parameter)
                if value is None or not text.fits(value, work):
                    return False
        return True


class Precedence(NamedTuple):
    """Sorts everything that may take a request: the first that fits takes it."""

    host: tuple[int, int]
    match: tuple[int, int, bool, int, int]
    created: str
    namespace: str
    name: str
    rule: int
    place: int
    """Of the match in its rule."""


def compiled(match: http_routes.RouteMatch, budget: regex.Budget) -> Match:
    """Raises UnsupportedError, with the field below the match."""
    kind = _KINDS.get(match.path.type)
    if kind is None:
        raise UnsupportedError("path.type", f"{match.path.type!r} is none of {', '.join(_KINDS)}")
    value, expression = match.path.value, None
    if kind == _REGEX:
        expression = _text(http_routes.REGULAR_EXPRESSION, value, "path", budget)
        value = ""
    elif kind == _PREFIX:
        value = value.rstrip("/")
    headers: dict[bytes, _Text] = {}
    for i, header in enumerate(match.headers):
        # of several conditions on one header, only the first counts
        name = header.name.lower().encode()
        headers.setdefault(name, _text(header.type, header.value, f"headers[{i}]", budget))
    parameters: dict[str, _Text] = {}
    for i, each in enumerate(match.query_params):
        parameters.setdefault(each.name, _text(each.type, each.value, f"queryParams[{i}]", budget))
    return Match(
        kind=kind,
        path=value,
        expression=expression,
        method=(match.method or "").encode(),
        headers=tuple(headers.items()),
        parameters=tuple(parameters.items()),
    )


def _text(type_: str, value: str, field: str, budget: regex.Budget) -> _Text:
    if type_ == http_routes.EXACT:
        return _Text(value)
    if type_ != http_routes.REGULAR_EXPRESSION:
        raise UnsupportedError(f"{field}.type", f"{type_!r} is neither Exact nor RegularExpression")
    try:
        found = budget.compiled(f"^(?:{value})$")
    except regex.RegexError as error:
        raise UnsupportedError(f"{field}.value", f"{value[:64]!r}: {error}") from error
    return _Text(value, found, regex.longest_text(found))
