"""Single values of ConfigMaps: documents, numbers and durations, and problems with them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from headgate import bounded_yaml
from headgate.kubeschema import duration

__all__ = [
    "ConfigProblem",
    "Key",
    "decimal",
    "duration_s",
    "is_boolean",
    "is_number",
    "is_true",
    "json_object",
    "yaml_mapping",
]

_MOST_BYTES: Final = 64 * 1024
"""Of one key; YAML takes long to parse."""
_DEEPEST: Final = 20
_SHOWN: Final = 80
_LARGEST: Final = 1e12
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


class ConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a ConfigMap that cannot be used, and how to mend it. Everything else stays in effect."""

    config_map: str
    """Namespace and name."""
    key: str = ""
    """Empty: the ConfigMap as a whole."""
    field: str = ""
    value: str = ""
    """As JSON, so that text is told from numbers, and shortened; empty if it is missing or secret."""
    told: str
    fix: str
    model: str = ""
    """The only model that it concerns, if there is one."""
    is_warning: bool = False
    """Whether the value is used nevertheless."""

    @property
    def message(self) -> str:
        where = f"ConfigMap {self.config_map}"
        where += f", key {self.key}" if self.key else ""
        where += f", field {self.field}" if self.field else ""
        value = f"{self.value} " if self.value else ""
        return f"{where}: {value}{self.told}; {self.fix}"


class Key:
    """One key of a ConfigMap; collects its problems."""

    def __init__(self, config_map: str, key: str, problems: list[ConfigProblem], model: str = "") -> None:
        self.config_map = config_map
        self.key = key
        self.model = model
        self.problems = problems

    def of_model(self, model: str) -> Key:
        """The same key, for problems that concern one model alone."""
        return Key(self.config_map, self.key, self.problems, model)

    def report(
        self, told: str, fix: str, *, field: str = "", value: object = "", is_warning: bool = False
    ) -> None:
        self.problems.append(
            ConfigProblem(
                config_map=self.config_map,
                key=self.key,
                field=field,
                value="" if value == "" else _shown(value),
                told=told,
                fix=fix,
                model=self.model,
                is_warning=is_warning,
            )
        )


def _shown(value: object) -> str:
    """As JSON, of at most `_SHOWN` characters."""
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...", ensure_ascii=False)
    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def decimal(text: str, *, most: float = _LARGEST) -> float | None:
    """A number from 0 to `most` in decimal digits; None for anything else."""
    if len(text) > 64 or not _DECIMAL.fullmatch(text.strip()):
        return None
    value = float(text)
    return value if 0 <= value <= most else None


def is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def is_boolean(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


def duration_s(text: str) -> float | None:
    """Seconds of a Go duration above 0; None for anything else."""
    try:
        seconds = duration.parse(text)
    except duration.DurationError:
        return None
    return seconds if seconds > 0 else None


def json_object(text: str, key: Key) -> dict[str, Any] | None:
    """The value of a key that is a JSON object; None after it was reported as something else."""
    if _is_too_long(text, key):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        key.report(f"is not JSON ({error})", 'write it as in {"device": "NVIDIA-L40S", "cost": "32.00"}')
        return None
    if not isinstance(value, dict):
        fix = 'write it as in {"device": "NVIDIA-L40S", "cost": "32.00"}'
        key.report("is not a JSON object", fix, value=text)
        return None
    return value


def yaml_mapping(text: str, key: Key, example: str) -> Mapping[Any, Any] | None:
    """The value of a key that is a YAML mapping; None after it was reported as something else."""
    if _is_too_long(text, key):
        return None
    try:
        bounded_yaml.check(text, _DEEPEST)
        value = yaml.load(text, bounded_yaml.LOADER)  # noqa: S506 - it is a safe one
    except bounded_yaml.TooDeepError as error:
        key.report(error.problem or "", f"write a mapping such as {example}")
        return None
    except bounded_yaml.AliasError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        told = f"{error.problem} in line {line}, which is not supported"
        key.report(told, f"write a mapping such as {example}")
        return None
    except Exception as error:  # of any kind, for values that do not fit their tags
        key.report(f"is not YAML ({_first_line(error)})", f"write a mapping such as {example}")
        return None
    if not isinstance(value, dict):
        key.report("is not a YAML mapping", f"write one such as {example}", value=text)
        return None
    return value


def _is_too_long(text: str, key: Key) -> bool:
    if len(text) <= _MOST_BYTES and len(text.encode(errors="replace")) <= _MOST_BYTES:
        return False
    key.report(f"has more than {_MOST_BYTES} bytes", "split it into several keys")
    return True


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"line {mark.line + 1}: {getattr(error, 'problem', error)}"
    return str(error).partition("\n")[0][:_SHOWN]


def is_number(value: object) -> bool:
    """Whether a value of YAML is a number that can be used; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
