"""What is known of each setting from its type: for the reader of the file, the flags and the table."""

from __future__ import annotations

import functools
import math
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect

from headgate.gateway.settings import GatewaySettings


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One field of GatewaySettings."""

    name: str
    annotation: Any
    type: inspect.Type
    """Without None and without its description."""
    default: Any
    description: str
    is_live: bool
    """Whether a running gateway takes a new value up."""
    is_derived: bool
    """Whether it follows from others, and cannot be set."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def wanted(self) -> str:
        """The values that it takes, in words."""
        return _wanted(self.type)

    @property
    def is_text(self) -> bool:
        return isinstance(self.type, inspect.StrType | inspect.LiteralType)

    @property
    def choices(self) -> list[str]:
        """The words that it takes, if it takes only some."""
        return (
            [str(value) for value in self.type.values] if isinstance(self.type, inspect.LiteralType) else []
        )

    def convert(self, value: object) -> Any:
        """The value as the setting has it. Raises ValueError, whose text says what is wanted instead."""
        try:
            converted = msgspec.convert(value, self.annotation)
        except msgspec.ValidationError:
            raise ValueError(f"{_shown(value)} is not {self.wanted}") from None
        if isinstance(converted, float) and not math.isfinite(converted):
            raise ValueError(f"{_shown(value)} is not {self.wanted}")
        return converted


@functools.cache
def settings() -> dict[str, Setting]:
    """All that can be set, by name, in their order."""
    struct = inspect.type_info(GatewaySettings)
    assert isinstance(struct, inspect.StructType)
    hints = get_type_hints(GatewaySettings, include_extras=True)
    found = (_setting(field, hints[field.name]) for field in struct.fields)
    return {setting.name: setting for setting in found if not setting.is_derived}


def _setting(field: inspect.Field, annotation: Any) -> Setting:
    type_ = field.type
    extra: dict[str, Any] = {}
    described: dict[str, Any] = {}
    if isinstance(type_, inspect.Metadata):
        extra, described, type_ = type_.extra or {}, type_.extra_json_schema or {}, type_.type
    if isinstance(type_, inspect.UnionType):
        (type_,) = (each for each in type_.types if not isinstance(each, inspect.NoneType))
    default = field.default
    if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return Setting(
        name=field.name,
        annotation=annotation,
        type=type_,
        default=default,
        description=described.get("description", ""),
        is_live=extra.get("live", True),
        is_derived=extra.get("derived", False),
    )


def _wanted(type_: inspect.Type) -> str:
    match type_:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_bounds(type_)}"
        case inspect.FloatType():
            return f"a number{_bounds(type_)}"
        case inspect.LiteralType():
            return ", ".join(map(str, type_.values[:-1])) + f" or {type_.values[-1]}"
        case inspect.ListType() | inspect.VarTupleType():
            return "a list of texts"
    return "text"


def _bounds(type_: inspect.IntType | inspect.FloatType) -> str:
    least, most = type_.ge, type_.le
    if least is not None and most is not None:
        return f" from {_number(least)} to {_number(most)}"
    if least is not None:
        return f" of at least {_number(least)}"
    return f" of at most {_number(most)}" if most is not None else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def _shown(value: object) -> str:
    return f"{msgspec.json.encode(value).decode():.64}"
