"""A flag for every setting of the gateway, made from the setting's type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from msgspec import inspect

from headgate.gateway import Setting, setting_types

Command = Callable[..., Any]


def of_settings(command: Command) -> Command:
    """Gives a command the flags of all settings; those that were said come as one argument `flags`."""

    def with_flags(**given: Any) -> Any:
        names = setting_types.settings().keys()
        rest = {name: value for name, value in given.items() if name not in names}
        return command(flags=said({name: given[name] for name in names}), **rest)

    with_flags.__doc__ = command.__doc__
    with_flags.__name__ = command.__name__
    with_flags.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Command = with_flags
    for setting in reversed(setting_types.settings().values()):
        decorated = click.option(setting.flag, setting.name, **_option(setting))(decorated)
    return decorated


def said(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were on the command line; a repeated one as a list."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None and value != ()
    }


def _option(setting: Setting) -> dict[str, Any]:
    """How click is to read it. No flag has a default of its own: that is the file's, or the setting's."""
    option: dict[str, Any] = {"help": setting.description, "default": None}
    if setting.default not in (None, (), []):
        option["help"] += f" Default: {_shown(setting.default)}."
    match setting.type:
        case inspect.BoolType():
            option["type"] = click.BOOL
        case inspect.IntType(ge=least, le=most):
            option |= {"type": click.IntRange(least, most), "metavar": "NUMBER"}
        case inspect.FloatType(ge=least, le=most):
            metavar = "SECONDS" if setting.name.endswith("_s") else "NUMBER"
            option |= {"type": click.FloatRange(least, most), "metavar": metavar}
        case inspect.LiteralType(values=values):
            option["type"] = click.Choice([str(value) for value in values])
        case inspect.ListType() | inspect.VarTupleType():
            option["multiple"] = True
            option["help"] += " Repeat it for more."
    return option


def _shown(default: Any) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    return ", ".join(map(str, default)) if isinstance(default, tuple | list) else str(default)
