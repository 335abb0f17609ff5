"""A flag for every setting of the gateway, generated from the setting's type; help groups them by section."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec import inspect

from headgate.gateway import Setting, old_settings, setting_types

Command = Callable[..., Any]

OF_UP = (
    "listen.host",
    "listen.port",
    "metrics.port",
    "admin.port",
    "workers.count",
    "scheduling.config_file",
    "auth.keys_file",
    "auth.tenants_file",
    "auth.namespace",
    "auth.admin_token_file",
)
"""Gateway settings for which `headgate up` has flags."""


class SettingsCommand(click.Command):
    """Suggests only current names for an unknown flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            shown = [each for each in self.get_params(ctx) if not getattr(each, "hidden", False)]
            meant = {flag: flag for each in shown for flag in each.opts}
            hidden = {_flag(old): path for old, path in old_settings.RENAMED.items()}
            meant |= {old: setting_types.settings()[path].flags[0] for old, path in hidden.items()}
            found = difflib.get_close_matches(error.option_name, meant, 3, 0.6)
            known = {flag for each in shown for flag in each.opts}
            possible = dict.fromkeys(meant[each] for each in found if meant[each] in known)
            raise click.NoSuchOption(error.option_name, possibilities=[*possible], ctx=ctx) from None


class _Value(click.ParamType[Any]):
    """The value of a setting: number, boolean or text. Invalid values are kept as written, so that they are
    reported together with all other settings errors instead of hiding them.
    """

    name = "value"

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if isinstance(self._setting.default, bool):
                return click.BOOL.convert(value, param, ctx)
            return self._setting.parse(value) if isinstance(value, str) else self._setting.convert(value)
        except (ValueError, click.BadParameter):
            return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self._setting.choices if word.startswith(incomplete)]


class GatewayCommand(SettingsCommand):
    """Groups the flags of settings by section in the help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        keys = setting_types.by_key().keys()
        others = [each for each in self.get_params(ctx) if each.name not in keys]
        _write_options("Options", others, ctx, formatter)
        params = {each.name: each for each in self.get_params(ctx)}
        for section in setting_types.sections():
            _write_options(section.name, [params[each.key] for each in section.settings], ctx, formatter)


def of_settings(command: Command) -> Command:
    """Add the flags of all settings to a command; the given ones are passed as the argument `flags`."""
    return of_some_settings(*setting_types.settings())(command)


def of_some_settings(*paths: str) -> Callable[[Command], Command]:
    """Add the flags of these settings to a command, under their current and old names."""
    wanted = [setting_types.settings()[path] for path in paths]
    old = {name: path for name, path in old_settings.RENAMED.items() if _is_old_flag(name, path, paths)}
    names = [*(setting.key for setting in wanted), *old]

    def decorate(command: Command) -> Command:
        def with_flags(**given: Any) -> Any:
            rest = {name: value for name, value in given.items() if name not in names}
            return command(flags=said({name: given[name] for name in names}), **rest)

        with_flags.__doc__ = command.__doc__
        with_flags.__name__ = command.__name__
        with_flags.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        decorated: Command = with_flags
        for name, path in old.items():
            option = _option(setting_types.settings()[path]) | {"hidden": True}
            decorated = click.option(_flag(name), name, **option)(decorated)
        for setting in reversed(wanted):
            decorated = click.option(*setting.flags, setting.key, **_option(setting))(decorated)
        return decorated

    return decorate


def said(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given on the command line; a repeated flag is a list."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None and value != ()
    }


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _is_old_flag(old: str, path: str, paths: Collection[str]) -> bool:
    return path in paths and _flag(old) not in setting_types.settings()[path].flags


def _write_options(
    title: str, params: list[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    records = [record for each in params if (record := each.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def _option(setting: Setting) -> dict[str, Any]:
    """The click option for a setting. It has no default: the file or the setting provides it."""
    option: dict[str, Any] = {"help": setting.description, "default": None}
    if setting.default not in (None, (), [], ""):
        option["help"] += f" Default: {_shown(setting.default)}."
    match setting.type:
        case inspect.BoolType():
            option |= {"type": _Value(setting), "metavar": "BOOLEAN"}
        case inspect.IntType() | inspect.FloatType():
            metavar = {"seconds": "SECONDS", "bytes": "BYTES"}.get(setting.unit, "NUMBER")
            option |= {"type": _Value(setting), "metavar": metavar}
        case inspect.LiteralType():
            option |= {"type": _Value(setting), "metavar": f"[{'|'.join(setting.choices)}]"}
        case inspect.StrType() if setting.name.endswith(("_file", "kubeconfig")):
            option |= {"type": click.Path(), "metavar": "FILE"}
        case inspect.ListType() | inspect.VarTupleType():
            option["multiple"] = True
            option["help"] += " Repeatable."
    return option


def _shown(default: Any) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    return ", ".join(map(str, default)) if isinstance(default, tuple | list) else str(default)
