"""Kthena's scheduler configuration, as its router reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.scheduling.configuration.fields import extras, read_struct
from headgate.scheduling.configuration.plan import Plan, PluginPlan, ProfilePlan
from headgate.scheduling.configuration.problems import Problems, meant
from headgate.scheduling.plugins import Filter, Plugin, Scorer
from headgate.scheduling.plugins.catalogue import KTHENA

AUTH = "auth"
"""The section by which Kthena's router authenticates requests; the gateway does the same."""


class _PluginConfig(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    args: dict[str, Any] = {}


class _Weighted(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    weight: int = 1


class _Filters(msgspec.Struct, frozen=True, kw_only=True):
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class _Scores(msgspec.Struct, frozen=True, kw_only=True):
    enabled: tuple[_Weighted | None, ...] = ()
    disabled: tuple[str, ...] = ()


class _Plugins(msgspec.Struct, frozen=True, kw_only=True):
    filter: _Filters = msgspec.field(default=_Filters(), name="Filter")
    score: _Scores = msgspec.field(default=_Scores(), name="Score")


class _Scheduler(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    plugin_config: tuple[_PluginConfig | None, ...] = ()
    plugins: _Plugins = _Plugins()


class Auth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whose tokens are accepted."""

    jwks_uri: str
    """URL or file of the issuer's public keys."""
    issuer: str = ""
    audiences: tuple[str, ...] = ()


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    scheduler: _Scheduler | None = None


_DEFAULT = _Scheduler(
    plugins=_Plugins(
        filter=_Filters(enabled=("least-request",)),
        score=_Scores(
            enabled=tuple(_Weighted(name=name) for name in ("least-request", "least-latency", "prefix-cache"))
        ),
    )
)
"""Used without a configuration."""


def is_kthena(document: Mapping[str, Any]) -> bool:
    """Whether a file is such a configuration: everything under `scheduler`, or at the top level as in older
    files."""
    return "kind" not in document and (
        "scheduler" in document or _is_bare(document) or _has_only_auth(document)
    )


def _is_bare(document: Mapping[str, Any]) -> bool:
    return "pluginConfig" in document or isinstance(document.get("plugins"), Mapping)


def _has_only_auth(document: Mapping[str, Any]) -> bool:
    auth = document.get(AUTH)
    return isinstance(auth, Mapping) and bool({"issuer", "audiences", "jwksUri"} & auth.keys())


def without_auth(document: dict[str, Any]) -> dict[str, Any]:
    """The file without its `auth` section, for callers that do not serve requests, or that ignore it by
    setting."""
    return {name: value for name, value in document.items() if name != AUTH}


def read(document: Mapping[str, Any], problems: Problems) -> Plan | None:
    """What the router would do with this file, except for its bugs; reports what is skipped."""
    if document.get(AUTH) is not None:
        auth = read_struct(Auth, document[AUTH], AUTH, problems)
        if auth is not None and not auth.jwks_uri.startswith(("http://", "https://", "/")):
            problems.error(
                f"{AUTH}.jwksUri", f"{auth.jwks_uri[:64]!r} is neither an http(s) URL nor the path of a file"
            )
    document = without_auth(dict(document))
    if "scheduler" not in document and _is_bare(document):
        scheduler, at = read_struct(_Scheduler, document, "", problems), ""
    else:
        said = read_struct(_Document, document, "", problems)
        scheduler, at = said.scheduler if said is not None else None, "scheduler."
    scheduler = scheduler or _DEFAULT
    plugins = _configured(scheduler, at, problems)
    filters = _known(
        scheduler.plugins.filter.enabled,
        scheduler.plugins.filter.disabled,
        Filter,
        at + "plugins.Filter.enabled[{}]",
        problems,
    )
    scorers = _scorers(scheduler.plugins.score, at, problems)
    if not scorers:
        problems.warning(f"{at}plugins.Score.enabled", "no scorer is left: any endpoint is as good")
    profile = ProfilePlan(name="default", filters=tuple(filters), scorers=tuple(scorers))
    for name in (*filters, *(name for name, _ in scorers)):
        plugins.setdefault(name, _plain(name))
    return Plan(dialect="Kthena", plugins=plugins, profiles={"default": profile}, primary="default")


def _plain(name: str) -> PluginPlan:
    kind = KTHENA[name]
    return PluginPlan(name=name, kind=kind, parameters=kind.Parameters())


def _configured(scheduler: _Scheduler, within: str, problems: Problems) -> dict[str, PluginPlan]:
    plugins: dict[str, PluginPlan] = {}
    for at, config in enumerate(scheduler.plugin_config):
        path = f"{within}pluginConfig[{at}]"
        if config is None:
            continue
        kind = KTHENA.get(config.name)
        if kind is None:
            _unknown(config.name, f"{path}.name", problems)
            continue
        if config.name in plugins:
            problems.error(f"{path}.name", f"{config.name} is configured twice", "remove one of the two")
        parameters = read_struct(kind.Parameters, config.args, f"{path}.args", problems)
        for name, extra in extras(kind.Parameters).items():
            if "unused" in extra and name in config.args:
                problems.note(f"{path}.args.{name}", f"without effect: {extra['unused']}")
        if parameters is not None:
            plugins[config.name] = PluginPlan(name=config.name, kind=kind, parameters=parameters)
    return plugins


def _known(
    enabled: tuple[str, ...],
    disabled: tuple[str, ...],
    role: type[Plugin],
    path: str,
    problems: Problems,
) -> list[str]:
    """The known names, in order, without the disabled ones."""
    found: list[str] = []
    for at, name in enumerate(enabled):
        kind = KTHENA.get(name)
        if kind is None:
            _unknown(name, path.format(at), problems)
        elif not issubclass(kind, role):
            problems.warning(path.format(at), f"{name} is not a {role.__name__.lower()}, and is skipped")
        elif name in disabled:
            problems.warning(path.format(at), f"{name} is disabled as well, and is left out")
        elif name not in found:
            found.append(name)
    return found


def _unknown(name: str, path: str, problems: Problems) -> None:
    problems.warning(path, f"no plugin is called {name}: it is skipped", meant(name, KTHENA))


def _scorers(score: _Scores, within: str, problems: Problems) -> list[tuple[str, float]]:
    path = within + "plugins.Score.enabled[{}]"
    given = [each for each in score.enabled if each is not None]
    names = _known(tuple(each.name for each in given), score.disabled, Scorer, path + ".name", problems)
    if "random" in names and len(names) > 1:
        problems.warning(
            path.format(names.index("random")), "random beside other scorers means nothing, and is left out"
        )
        names.remove("random")
    weights: dict[str, float] = {}
    for at, each in enumerate(given):
        if each.weight < 0:
            problems.warning(path.format(at) + ".weight", f"the weight {each.weight} counts as 0")
        weights.setdefault(each.name, max(each.weight, 0))
    return [(name, weights[name]) for name in names]
