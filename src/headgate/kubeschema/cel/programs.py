"""The interface to the CEL engine: only this module, `engine` and, for optional values, `values` know which
package evaluates the rules of CRDs.

An `Expression` is compiled once, reports errors immediately, and evaluates with `self` and `oldSelf`. The
functions that Kubernetes adds to CEL (sum, split, quantity, sets, optional selection, ...) are added here.
The few unsupported features (named formats, optional entries of lists and maps, comprehensions of two
variables) are rejected when a rule is registered, not when an object arrives.

One difference from cel-go remains: type errors are found when a rule runs, because there is no type checker.
"""

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from headgate.kubeschema import regex
from headgate.kubeschema.cel import packed, syntax, values
from headgate.kubeschema.cel.engine import cel

__all__ = ["MISSING", "CelError", "Expression", "compiled"]

MISSING: Final = cel.OptionalValue.none()
"""Stands for a missing old value: `oldSelf` of a field that did not exist before."""

_LONGEST_SOURCE = 10_240
_CHARACTERS_A_STEP = 100
_STEPS_A_CALL = 10

_MACROS = r"(?:all|exists|exists_one|existsOne|map|filter)"
_COMPREHENSION = re.compile(rf"\b{_MACROS}\s*\(\s*([A-Za-z_]\w*)\s*,")
_MACRO_NAME = re.compile(rf"\b{_MACROS}\b")
_HARD_TO_SCAN = re.compile(r"//|[rR]['\"]|\"\"\"|'''")  # comments, raw and triple-quoted strings
_FIELD_OF_SELF = re.compile(r"\b(?:self|oldSelf)\b(?:\.([A-Za-z_]\w*)(?!\w|\s*\())?")
_SELF = re.compile(r"\b(?:self|oldSelf)\b")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'")
_OF_FUNCTION = re.compile(r"^Function '\w+' error: Python function call failed: \w+: ")
_TYPE_NAMES = frozenset(
    {"bool", "bytes", "double", "dyn", "int", "list"}
    | {"map", "null_type", "optional", "string", "type", "uint"}
)
_ON_TEXT = frozenset(values.TEXT_FUNCTIONS)
_BUILT_IN = frozenset(
    {"size", "startsWith", "endsWith", "contains"}
    | {"string", "int", "uint", "double", "bool", "bytes", "type", "dyn", "timestamp"}
    | {"of", "none", "hasValue", "value", "orValue", "or"}
    | {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
)


class CelError(ValueError):
    """A rule does not compile, or could not be evaluated for this value."""


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(items))


# From Kubernetes' libraries for lists, text, addresses and quantities; a method's receiver is the first
# argument.
_EXTENSIONS: dict[str, Callable[..., Any]] = {
    **packed.ADDRESS_FUNCTIONS,
    **packed.QUANTITY_FUNCTIONS,
    **values.TEXT_FUNCTIONS,
    **values.VALUE_FUNCTIONS,
    "sum": sum,
    "min": min,
    "max": max,
    "isSorted": _is_sorted,
}


class Expression:
    """One compiled CEL expression over `self` and, in transition rules, `oldSelf`.

    `fields` names the only fields of the two that it reads, if that can be determined: passing a large object
    to the engine costs more than evaluating the rule, so callers omit the other fields.
    """

    def __init__(self, source: str) -> None:
        if len(source) > _LONGEST_SOURCE:
            raise CelError(f"rule is {len(source)} characters long; at most {_LONGEST_SOURCE} are allowed")
        source = syntax.rewritten(source)
        self._program = _program(source)
        for literal in syntax.regular_expressions(source):
            _reject_large(literal)
        self._extensions = _extensions_of(self._program)
        is_measuring = "size" in self._program.functions()
        self._measuring = _program(syntax.with_lengths(source)) if is_measuring else None
        self._is_ascii = source.isascii()
        variables = set(self._program.variables())
        self._reject_undeclared(source, variables)
        self.is_transition = "oldSelf" in variables
        plain = _STRING.sub("''", source)
        self.fields = _fields(plain)
        self._nesting = _nesting(source, plain)
        self._literals = source.count(",") + 1
        self._works_on_text = "+" in plain or not _ON_TEXT.isdisjoint(self._program.functions())

    def _reject_undeclared(self, source: str, variables: set[str]) -> None:
        bound = set(_COMPREHENSION.findall(source))
        unknown = sorted(variables - bound - _TYPE_NAMES - {"self", "oldSelf"})
        unknown += [
            name
            for name in self._program.functions()
            if name.isidentifier() and name not in _BUILT_IN and name not in _EXTENSIONS
        ]
        if unknown:
            raise CelError(
                "; ".join(f"undeclared reference to '{name}' (in container '')" for name in unknown)
            )

    def steps(self, value: object) -> int:
        """An upper bound of the steps for this value, from the nesting of comprehensions.

        The engine has no limit of its own; a million steps take about 0.15 s, and ten times that if they call
        functions that are added here. Using `self` inside a loop copies it each time, so it counts like
        another loop; text functions in a loop count by the text's length. A rule without loops costs no more
        than passing the value, which counts as one.
        """
        if self._nesting == 0 or (self._nesting == 1 and not self._works_on_text):
            return 1
        items, characters = _largest(value)
        if "split" in self._extensions:
            items = max(items, characters)
        weight = 1 + characters // _CHARACTERS_A_STEP if self._works_on_text else 1
        weight *= _STEPS_A_CALL if self._extensions else 1
        return int(max(items, self._literals) ** self._nesting) * weight

    def evaluate(self, value: object, old: object = MISSING, *, optional_old: bool = False) -> object:
        """The result with `self` bound to `value`; with `optional_old`, `oldSelf` is a CEL optional."""
        if optional_old and old is not MISSING:
            old = cel.OptionalValue.of(old)
        variables = {"self": value, "oldSelf": old}
        program, extensions = self._program, self._extensions
        if self._measuring is not None and not (self._is_ascii and _is_ascii(value) and _is_ascii(old)):
            program, extensions = self._measuring, _extensions_of(self._measuring)
        context = cel.Context(variables, extensions) if extensions else variables
        try:
            return program.execute(context)
        except KeyError as problem:
            raise CelError(f"no such key: {problem.args[0]}") from problem
        except ZeroDivisionError as problem:
            raise CelError("division by zero") from problem
        except OverflowError as problem:
            raise CelError("integer overflow") from problem
        except TypeError as problem:
            raise CelError("no such overload") from problem
        except (RuntimeError, ValueError, LookupError) as problem:
            raise CelError(_first_lines(problem)) from problem


@functools.lru_cache(maxsize=1024)
def compiled(source: str) -> Expression:
    """The expression of this source, compiled on first use; raises CelError if it does not compile."""
    return Expression(source)


def _program(source: str) -> cel.Program:
    try:
        return cel.compile(source)
    except ValueError as problem:
        raise CelError(_first_lines(problem)) from problem


def _reject_large(literal: str) -> None:
    """Reject a regular expression that is too large; the engine reports other errors."""
    try:
        regex.compiled(literal, regex.OF_SCHEMAS)
    except regex.TooLargeError as error:
        raise CelError(f"the regular expression {literal[:100]!r} is too large: {error}") from error
    except regex.RegexError:
        return


def _extensions_of(program: cel.Program) -> dict[str, Callable[..., Any]]:
    return {name: _EXTENSIONS[name] for name in program.functions() if name in _EXTENSIONS}


def _is_ascii(value: object) -> bool:
    """Whether all texts of a value are ASCII, so that the engine's byte counts are character counts."""
    return isinstance(value, cel.OptionalValue) or msgspec.json.encode(value).isascii()


def _first_lines(problem: Exception) -> str:
    """The engine's message without its advice on the Python API, and without the names of functions here."""
    message = _OF_FUNCTION.sub("", str(problem).split(". Check ", 1)[0])
    return " ".join(message.split())[:500]


def _largest(value: object) -> tuple[int, int]:
    """The lengths of the longest list or map, and of the longest text, inside the value."""
    items, characters = 0, 0
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            characters = max(characters, len(item))
        elif isinstance(item, dict | list):
            items = max(items, len(item))
            pending.extend(item.values() if isinstance(item, dict) else item)
    return items, characters


def _fields(source: str) -> frozenset[str] | None:
    """The fields of `self` that the rule reads; None if it uses `self` in any other way."""
    names = _FIELD_OF_SELF.findall(source)
    return None if "" in names else frozenset(names)


def _nesting(source: str, plain: str) -> int:
    """The deepest nesting of loops over lists: all(a, all(b, ...)) is 2.

    So is all(a, a in self.b), which loops through b for each a.
    """
    if _HARD_TO_SCAN.search(source):
        loops = len(_MACRO_NAME.findall(source))
        return loops + 1 if loops and len(_SELF.findall(source)) > loops else loops
    starts = {match.start() + match.group().index("(") for match in _COMPREHENSION.finditer(plain)}
    names = {match.start() for match in _SELF.finditer(plain)}
    deepest, open_brackets = 0, list[bool]()
    for position, character in enumerate(plain):
        if character == "(":
            open_brackets.append(position in starts)
            deepest = max(deepest, sum(open_brackets))
        elif character == ")" and open_brackets:
            open_brackets.pop()
        elif position in names and (depth := sum(open_brackets)):
            deepest = max(deepest, depth + 1)
    return deepest
