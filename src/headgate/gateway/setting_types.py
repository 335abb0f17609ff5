"""Each setting as described by its type: for its file, its flag, its environment variable and its table."""

from __future__ import annotations

import functools
import inspect as introspection
import math
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect

from headgate.gateway.settings import GatewaySettings, Section

ENVIRONMENT_PREFIX = "HEADGATE_"

_UNITS = {"_s": "seconds", "_bytes": "bytes", "_tokens": "tokens"}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a section of GatewaySettings."""

    section: str
    name: str
    """Within its section."""
    annotation: Any
    type: inspect.Type
    """Without None and without its description."""
    default: Any
    description: str
    is_live: bool
    """Whether a running gateway applies a new value."""
    is_derived: bool
    """Whether it is computed from others and cannot be set."""
    short_flag: str
    """Another name of its flag, or ""."""

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def key(self) -> str:
        """Its path as an identifier."""
        return f"{self.section}_{self.name}"

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of its flag, the short one first."""
        full = "--" + self.key.replace("_", "-")
        return (self.short_flag, full) if self.short_flag else (full,)

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return ENVIRONMENT_PREFIX + self.key.upper()

    @property
    def wanted(self) -> str:
        """The accepted values, in words."""
        return _wanted(self.type, self.unit)

    @property
    def unit(self) -> str:
        """The unit of a number, from its name; "" without one."""
        if self.name.endswith("_per_s"):
            return ""
        return next((unit for suffix, unit in _UNITS.items() if self.name.endswith(suffix)), "")

    @property
    def is_text(self) -> bool:
        return isinstance(self.type, inspect.StrType | inspect.LiteralType)

    @property
    def is_list(self) -> bool:
        return isinstance(self.type, inspect.ListType | inspect.VarTupleType)

    @property
    def choices(self) -> list[str]:
        """The accepted words, if it has a fixed set of them."""
        return (
            [str(value) for value in self.type.values] if isinstance(self.type, inspect.LiteralType) else []
        )

    def convert(self, value: object) -> Any:
        """The value converted to the type of the setting. Raises ValueError, which says what is accepted
        instead."""
        return self._converted(value, strict=True)

    def takes(self, value: object) -> bool:
        """Whether it accepts this value."""
        try:
            self.convert(value)
        except ValueError:
            return False
        return True

    def parse(self, text: str) -> Any:
        """Convert the text of an environment variable; lists are separated by commas. Raises ValueError."""
        if self.is_list:
            return self.convert([part.strip() for part in text.split(",") if part.strip()])
        return self._converted(text, strict=self.is_text)

    def _converted(self, value: object, *, strict: bool) -> Any:
        try:
            converted = msgspec.convert(value, self.annotation, strict=strict)
        except msgspec.ValidationError:
            raise ValueError(f"{_shown(value)} is not {self.wanted}") from None
        if isinstance(converted, float) and not math.isfinite(converted):
            raise ValueError(f"{_shown(value)} is not {self.wanted}")
        return converted


class SectionInfo(msgspec.Struct, frozen=True):
    """A section and its settings."""

    name: str
    description: str
    settings: tuple[Setting, ...]


@functools.cache
def sections() -> tuple[SectionInfo, ...]:
    """All sections with everything that can be set, in order."""
    struct = inspect.type_info(GatewaySettings)
    assert isinstance(struct, inspect.StructType)
    return tuple(_section(field) for field in struct.fields)


@functools.cache
def settings() -> dict[str, Setting]:
    """Everything that can be set, by path, in order."""
    return {setting.path: setting for section in sections() for setting in section.settings}


@functools.cache
def by_key() -> dict[str, Setting]:
    """Everything that can be set, by key."""
    return {setting.key: setting for setting in settings().values()}


def _section(field: inspect.Field) -> SectionInfo:
    type_ = field.type
    assert isinstance(type_, inspect.StructType)
    assert issubclass(type_.cls, Section)
    hints = get_type_hints(type_.cls, include_extras=True)
    found = [_of_field(field.name, each, hints[each.name]) for each in type_.fields]
    description = introspection.getdoc(type_.cls) or ""
    return SectionInfo(field.name, description, tuple(each for each in found if not each.is_derived))


def _of_field(section: str, field: inspect.Field, annotation: Any) -> Setting:
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
        section=section,
        name=field.name,
        annotation=annotation,
        type=type_,
        default=default,
        description=described.get("description", ""),
        is_live=extra.get("live", True),
        is_derived=extra.get("derived", False),
        short_flag=extra.get("flag", ""),
    )


def _wanted(type_: inspect.Type, unit: str) -> str:
    of = f" of {unit}" if unit else ""
    match type_:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{of}{_bounds(type_)}"
        case inspect.FloatType():
            return f"a number{of}{_bounds(type_)}"
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
