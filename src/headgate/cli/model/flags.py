"""Flags of an engine, as given after `--`, converted to the `config` of a worker."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

__all__ = ["FlagError", "config_of"]

_FLAG = re.compile(r"--([A-Za-z0-9][A-Za-z0-9._-]*)\Z")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)\Z")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_LONGEST_INTEGER = 24
_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-q": "--quantization",
    "-sc": "--scheduler-config",
}
_OWN = {
    "model": "the argument of `headgate serve` is the model",
    "model-path": "the argument of `headgate serve` is the model",
    "host": "the engine listens on the address of its Pod",
    "lora-modules": "name adapters with --adapter NAME=URI, before the --",
    "lora-paths": "name adapters with --adapter NAME=URI, before the --",
}
"""Flags that the controller sets itself, and what to do instead."""

_WITH_VALUE = frozenset(
    (
        *("max-model-len", "context-length", "tensor-parallel-size", "tp-size", "pipeline-parallel-size"),
        *("data-parallel-size", "gpu-memory-utilization", "mem-fraction-static", "max-num-seqs", "dtype"),
        *("quantization", "port", "served-model-name", "tokenizer", "seed", "revision", "chat-template"),
        *("kv-cache-dtype", "max-num-batched-tokens", "block-size", "swap-space", "load-format"),
        *("tool-call-parser", "reasoning-parser", "kv-transfer-config", "speculative-config"),
    )
)
"""Flags of which every engine that has them demands a value."""

_SEVERAL = frozenset(("served-model-name", "middleware", "allowed-origins", "api-key"))
"""Flags that may have several values, one after the other."""


class FlagError(ValueError):
    """The flags cannot be a config; the message has one line for each that is wrong."""


def config_of(words: Sequence[str], *, has_negations: bool = False) -> dict[str, Any]:
    """The config that the controller turns into these flags again.

    Numbers become numbers, JSON objects and lists what they are, and a flag without a value true. For an
    engine that `has_negations`, `--no-NAME` becomes false for NAME. Any other value stays the text that it
    is, and so does one with an integer of more than 64 bits, which API servers would round. Raises FlagError.
    """
    config: dict[str, Any] = {}
    problems: list[str] = []
    for word, values in _grouped(words, problems):
        try:
            name, converted = _entry(word, values, has_negations)
        except FlagError as error:
            problems.append(str(error))
            continue
        if name in config:
            problems.append(f"{word}: given twice; a list is one value, in JSON: '[1, 2]'")
        config[name] = converted
    if problems:
        raise FlagError("\n".join(problems))
    return config


def _grouped(words: Sequence[str], problems: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Flags with their values; what is neither is a problem."""
    flag, values = "", list[str]()
    for word in words:
        if _is_flag(word):
            if flag:
                yield flag, values
            flag, equals, value = word.partition("=")
            values = [value] if equals else []
        elif not flag:
            problems.append(f"{word!r}: not a flag; flags of the engine begin with --")
        else:
            values.append(word)
    if flag:
        yield flag, values


def _is_flag(word: str) -> bool:
    """Whether a word begins a flag; `-1` is a value."""
    return word.startswith("-") and len(word) > 1 and _NUMBER.match(word) is None


def _entry(word: str, values: list[str], has_negations: bool) -> tuple[str, Any]:
    """Name and value in the config."""
    match = _FLAG.match(word)
    if match is None:
        hint = f"write {_SHORT[word]}" if word in _SHORT else "write its long form, such as --max-model-len"
        raise FlagError(f"{word}: short flags have no name in a config; {hint}")
    name = match[1].replace("_", "-")
    if name in _OWN:
        raise FlagError(f"{word}: set by Headgate: {_OWN[name]}")
    if not values:
        if name in _WITH_VALUE:
            raise FlagError(f"{word}: needs a value, as in {word} VALUE")
        is_negation = has_negations and name.startswith("no-") and len(name) > 3
        return (name[3:], False) if is_negation else (name, True)
    if "" in values:
        raise FlagError(f"{word}: the value is empty; leave out the flag for the engine's default")
    if len(values) > 1 and name not in _SEVERAL:
        raise FlagError(f"{word}: has {len(values)} values, {values}; put a value that has spaces in quotes")
    converted = [_value(word, each) for each in values]
    return name, converted if len(converted) > 1 else converted[0]


def _value(word: str, text: str) -> Any:
    if _INTEGER.match(text):
        return int(text) if _is_exact(text) else text
    if _NUMBER.match(text) and math.isfinite(float(text)):
        return float(text)
    if text[0] in "{[":
        try:
            integers = list[str]()
            value = json.loads(
                text, parse_constant=_not_json, parse_float=_finite, parse_int=partial(_integer, integers)
            )
            return value if all(map(_is_exact, integers)) else text
        except (ValueError, RecursionError) as error:
            raise FlagError(
                f"{word}: {text!r} is not JSON: {error}; put it in single quotes, for the shell"
            ) from error
    return text


def _integer(found: list[str], text: str) -> int:
    found.append(text)
    return int(text)


def _is_exact(text: str) -> bool:
    """Whether the integer fits into 64 bits: Kubernetes makes a floating-point number of any other."""
    return len(text) < _LONGEST_INTEGER and -(1 << 63) <= int(text) < 1 << 63


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_json(text)


def _not_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")
