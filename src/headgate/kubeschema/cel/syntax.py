"""Rewrites CEL syntax that the engine lacks into function calls.

    self.?a.?b.orValue(1)     select(select(self, "a"), "b").orValue(1)
    self[?0]                  select(self, 0)
    sets.contains(a, b)       sets_contains(a, b)
    a.matches(b)              a.headgate_matches(b)

The engine has `matches` and `duration`, but for the regular expressions of Rust, and for fewer durations than
Go.

Texts and comments are not rewritten. Optional entries of lists and maps (`[?x]`, `{?k: v}`) stay as they are,
so that the engine rejects them.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = [
    "DURATION",
    "LENGTH",
    "MATCHES",
    "NAMESPACES",
    "SELECT",
    "regular_expressions",
    "rewritten",
    "with_lengths",
]

SELECT: Final = "headgate_select"
LENGTH: Final = "headgate_size"
MATCHES: Final = "headgate_matches"
DURATION: Final = "headgate_duration"
NAMESPACES: Final = frozenset({"sets"})

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>[0-9][\w.]*)"
    r"|(?P<sign>\.\?|\[\s*\?|.)",
    re.DOTALL,
)
_REPLACED: Final = {"matches": MATCHES, "duration": DURATION}
_BY_EXPRESSION: Final = frozenset({MATCHES, "find", "findAll"})
_OPENS: Final = {")": "(", "]": "[", "}": "{"}
_ENDS_OPERAND: Final = frozenset({")", "]", "}"})


class _Token(NamedTuple):
    kind: str
    text: str


def rewritten(source: str) -> str:
    """The rewritten expression; the source itself if nothing needs rewriting."""
    source = _renamed(source, _REPLACED)
    if "?" not in source and not any(f"{name}." in source for name in NAMESPACES):
        return source
    out: list[_Token] = []
    opened: list[int] = []
    """Positions in `out` of unclosed optional indexes; -1 for other brackets."""
    tokens = _tokens(source)
    position = 0
    while position < len(tokens):
        token = tokens[position]
        following = tokens[position + 1] if position + 1 < len(tokens) else _Token("", "")
        if token.text == ".?" and following.kind == "name":
            _select(out, _operand(out), f'"{following.text}"')
            position += 1
        elif token.text.startswith("[") and token.text.endswith("?") and _operand(out) < len(out):
            opened.append(len(out))
            out.append(token)
        elif token.kind == "name" and token.text in NAMESPACES and following.text == ".":
            out.append(_Token("name", f"{token.text}_{tokens[position + 2].text}"))
            position += 2
        elif token.text == "." and following.kind == "name" and _is_field_of_optional(out, tokens, position):
            _select(out, _operand(out), f'"{following.text}"')
            position += 1
        else:
            _copy(token, out, opened)
        position += 1
    return "".join(token.text for token in out)


def with_lengths(source: str) -> str:
    """The expression with `size` counting characters, where the engine's counts bytes."""
    return _renamed(source, {"size": LENGTH})


def _renamed(source: str, functions: dict[str, str]) -> str:
    """The expression with calls of other functions; these are keyed by the old name."""
    if not any(name in source for name in functions):
        return source
    tokens = _tokens(source)
    followers = [*tokens[1:], _Token("", "")]
    return "".join(
        functions.get(token.text, token.text) if token.kind == "name" and after.text == "(" else token.text
        for token, after in zip(tokens, followers, strict=True)
    )


def regular_expressions(source: str) -> Iterator[str]:
    """The literal arguments of `matches` and similar functions."""
    tokens = [token for token in _tokens(source) if token.kind != "space"]
    for name, bracket, argument, closing in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        is_call = name.text in _BY_EXPRESSION and bracket.text == "(" and closing.text in (")", ",")
        if is_call and argument.kind == "text":
            with contextlib.suppress(SyntaxError, ValueError):  # CEL has other escapes than Python
                literal = ast.literal_eval(argument.text)
                if isinstance(literal, str):
                    yield literal


def _tokens(source: str) -> list[_Token]:
    return [
        _Token(str(match.lastgroup), match.group())
        for match in _TOKEN.finditer(source)
        if match.lastgroup != "space"
        or match.group().isspace()  # a comment would swallow the rest of its line
    ]


def _copy(token: _Token, out: list[_Token], opened: list[int]) -> None:
    if token.text in ("(", "[", "{") or token.text.startswith("["):
        opened.append(-1)
    elif token.text in _OPENS and opened and (start := opened.pop()) >= 0:
        index = "".join(inside.text for inside in out[start + 1 :])
        del out[start:]
        _select(out, _operand(out), index)
        return
    out.append(token)


def _select(out: list[_Token], start: int, key: str) -> None:
    """Replace the operand at the end by an optional of its field or item."""
    operand = "".join(token.text for token in out[start:])
    out[start:] = [_Token("optional", f"{SELECT}({operand}, {key})")]


def _is_field_of_optional(out: list[_Token], tokens: list[_Token], position: int) -> bool:
    """Whether this `.name` is a field, not a method, of an optional: then it is optional too."""
    after = tokens[position + 2].text if position + 2 < len(tokens) else ""
    return bool(out) and out[-1].kind == "optional" and after != "("


def _operand(out: list[_Token]) -> int:
    """The start of the operand that ends here, such as `f(x).a[0]`; the end if there is none."""
    start = position = len(out)
    while position:
        token = out[position - 1]
        if token.text in _ENDS_OPERAND:
            position = _opening(out, position - 1)
            is_call = position > 0 and out[position - 1].kind == "name"
            is_index = out[position].text == "[" and position > 0 and _ends_operand(out[position - 1])
            start = position
            if is_index:
                continue
            if is_call and out[position].text == "(":
                position -= 1
                start = position
        elif token.kind in ("name", "text", "number", "optional"):
            position -= 1
            start = position
        else:
            break
        if position and out[position - 1].text == ".":
            position -= 1
            continue
        break
    return start


def _ends_operand(token: _Token) -> bool:
    return token.text in _ENDS_OPERAND or token.kind in ("name", "text", "optional")


def _opening(out: list[_Token], closing: int) -> int:
    """The position of the bracket that is closed here."""
    depth = 0
    for position in range(closing, -1, -1):
        if out[position].text in _ENDS_OPERAND:
            depth += 1
        elif out[position].text in ("(", "[", "{"):
            depth -= 1
            if depth == 0:
                return position
    return 0
