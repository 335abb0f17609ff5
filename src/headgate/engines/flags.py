"""Typed conversion of a worker's `config` to command line flags.

A name may be written with `_` or `-`. null leaves a flag out, whatever a default would be; an empty string is
a flag without a value. Integers keep their digits; API servers make floating-point numbers of those of more
than 64 bits, which must be strings to keep theirs. Lists and objects become JSON, unless the engine takes the
items of a list as separate arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from headgate.engines.launch import Problem

MAX_FLAGS = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,253}")

Negation = Callable[[str], list[str]]
"""The arguments for a boolean flag that is false."""


def prefixed_with_no(name: str) -> list[str]:
    return [f"--no-{name}"]


def left_out(name: str) -> list[str]:
    """For engines whose boolean flags can only be set."""
    return []


class Config:
    """The config of a worker by flag, and what is wrong with it."""

    def __init__(self, config: Mapping[str, object], *, as_flags: bool = True) -> None:
        """`as_flags` is false for engines that are configured by a file: names stay as they are."""
        self._as_flags = as_flags
        self.problems: list[Problem] = []
        self._given: dict[str, object] = {}
        self._keys: dict[str, str] = {}
        for key, value in list(config.items())[:MAX_FLAGS]:
            self._read(key, value)
        if len(config) > MAX_FLAGS:
            self.problem("", f"has {len(config)} flags; at most {MAX_FLAGS} are allowed")

    def _read(self, key: str, value: object) -> None:
        name = flag_name(key) if self._as_flags else key
        if not _NAME.fullmatch(name):
            self.problem(key, "is not the name of a flag: write it without leading dashes, without spaces")
        elif name in self._keys:
            self.problem(key, f"is the same flag as {self._keys[name]!r}: remove one of them")
        elif isinstance(value, str) and "\0" in value:
            self.problem(key, "has a NUL character, which no argument can contain")
        else:
            self._keys[name] = key
            self._given[name] = value

    def problem(self, key: str, message: str) -> None:
        self.problems.append(Problem(self._keys.get(key, key), message))

    def __contains__(self, name: str) -> bool:
        """Whether the user decides about the flag, be it with null."""
        return name in self._given

    def get(self, name: str) -> object:
        return self._given.get(name)

    def take(self, name: str) -> object:
        """The value of a flag that the caller passes on in its own way; None if it is not set."""
        self._refuse_abbreviations(name, "write it in full")
        return self._given.pop(name, None)

    def take_integer(self, name: str, default: int, smallest: int, largest: int) -> int:
        """An integer, also if it is written as a string. Another value is a problem."""
        value = self.take(name)
        if value is None:
            return default
        number = integer(value)
        if number is None or not smallest <= number <= largest:
            self.problem(name, f"is {shown(value)}; it must be an integer from {smallest} to {largest}")
            return default
        return number

    def take_object(self, name: str) -> Mapping[str, object] | None:
        """An object, also as a string with JSON. Another value is a problem."""
        value = self._given.pop(name, None)
        if isinstance(value, str) and value:
            try:
                value = msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError):
                self.problem(name, "is not JSON")
                return None
        if value is None or isinstance(value, dict):
            return value
        self.problem(name, f"is {shown(value)}; it must be an object")
        return None

    def reserved(self, names: Mapping[str, str]) -> None:
        """Report flags that the user must not set, with the reason for each."""
        for name, why in names.items():
            self._refuse_abbreviations(name, f"which {why}")
            if self._given.get(name) is not None:
                self.problem(name, why)
            self._given.pop(name, None)

    def _refuse_abbreviations(self, name: str, why: str) -> None:
        """Engines read the beginning of a flag as the whole, which could set one that is reserved."""
        if self._as_flags:
            for given in [each for each in self._given if name.startswith(each) and each != name]:
                self.problem(given, f"is an abbreviation of {name}, {why}")
                del self._given[given]

    def default(self, name: str, value: object) -> None:
        """Set a flag unless the user decides about it."""
        self._given.setdefault(name, value)

    def remaining(self) -> Iterator[tuple[str, object]]:
        """Everything that was not taken."""
        yield from self._given.items()

    def flags(
        self, negation: Negation, several: Collection[str] = (), appended: Collection[str] = ()
    ) -> list[str]:
        """All flags that were not taken, sorted by name. The items of a list are separate arguments after one
        flag for names in `several`, each after a flag of its own for names in `appended`."""
        found = list[str]()
        for name, value in sorted(self._given.items()):
            if isinstance(value, list) and name in appended:
                found += [argument for item in value for argument in _with_value(name, text(item))]
            else:
                found += self._flag(name, negation, several)
        return found

    def _flag(self, name: str, negation: Negation, several: Collection[str]) -> Iterator[str]:
        value = self._given[name]
        if value is None:
            return
        if value is False:
            yield from negation(name)
            return
        if value is True or value == "":
            yield f"--{name}"
        elif isinstance(value, list) and name in several:
            if value:
                yield f"--{name}"
                yield from (text(item) for item in value)
        else:
            yield from _with_value(name, text(value))


def _with_value(name: str, value: str) -> list[str]:
    """A separate argument that begins with a dash would be read as a flag."""
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def names(given: object, stable: str) -> list[str]:
    """The names that a model is served by: those of the user first, since an engine calls itself by the
    first one, and then `stable`."""
    own = given if isinstance(given, list) else [given] if given else []
    return list(dict.fromkeys([*(text(name) for name in own), stable]))


def flag_name(key: str) -> str:
    """The flag that a key of the config means."""
    return key.replace("_", "-")


def text(value: object) -> str:
    """A JSON value as one argument: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def integer(value: object) -> int | None:
    """The integer that a value is or has as text; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    return None


def shown(value: object) -> str:
    """The value in a message, shortened."""
    written = _json(value)
    return written if len(written) <= 64 else f"{written[:61]}..."
