"""EndpointPickerConfig, the configuration of llm-d's endpoint picker and of its predecessor."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from headgate.scheduling.configuration import document, elsewhere, handlers
from headgate.scheduling.configuration.document import Document
from headgate.scheduling.configuration.fields import extras, read_struct, shown
from headgate.scheduling.configuration.plan import Disaggregation, Plan, PluginPlan, ProfilePlan
from headgate.scheduling.configuration.problems import Problems, meant
from headgate.scheduling.plugins import Filter, Picker, Plugin, Scorer, users
from headgate.scheduling.plugins.catalogue import PICKER

KIND = "EndpointPickerConfig"

_DEFAULT = (("queue-scorer", 2.0), ("kv-cache-utilization-scorer", 2.0), ("prefix-cache-scorer", 3.0))
"""Used without a configuration."""
ALPHA_FLAG = "scheduling.allow_experimental_plugins"


def read(said: Document, problems: Problems, *, allow_alpha: bool | None) -> Plan | None:
    """A plan by the defaulting rules of the endpoint picker; None if the file has errors."""
    document.judge_header(said, problems)
    plugins = _Plugins(said, problems, allow_alpha)
    document.judge_references(said, plugins.types, problems)
    profiles = _Profiles(plugins, said, problems)
    apart = _disaggregation(plugins, profiles, problems)
    if problems.has_errors:
        return None
    names = list(profiles.plans)
    return Plan(
        dialect=KIND,
        plugins=plugins.plans,
        profiles=profiles.plans,
        primary=apart.decode if apart is not None else names[0],
        disaggregation=apart,
    )


class _Plugins:
    """The plugins that are defined."""

    def __init__(self, said: Document, problems: Problems, allow_alpha: bool | None) -> None:
        self._problems = problems
        self._allows_alpha = allow_alpha
        self.types: dict[str, str] = {}
        """Type of each plugin, by name."""
        self.plans: dict[str, PluginPlan] = {}
        """The plugins that policies are composed of."""
        self.others: dict[str, tuple[str, Any]] = {}
        """Handlers and deciders: type and parameters by name."""
        self.paths: dict[str, str] = {}
        for at, spec in enumerate(said.plugins):
            if spec is not None:
                self._add(spec, f"plugins[{at}]")
        for name, plan in self.plans.items():
            self._judge_producers(plan, f"{self.paths[name]}.parameters")

    def _add(self, spec: document.PluginSpec, path: str) -> None:
        name = spec.name or spec.type
        if name in self.types:
            field = "name" if spec.name else "type"
            self._problems.error(
                f"{path}.{field}", f"a second plugin is called {name}", "give one of them another name"
            )
            return
        current = elsewhere.RENAMED.get(spec.type, spec.type)
        self.types[name], self.paths[name] = current, path
        if (instead := elsewhere.DEPRECATED.get(spec.type)) is not None:
            self._problems.warning(f"{path}.type", f"{spec.type} is deprecated", f"use {instead}")
        kind = PICKER.get(current)
        if kind is not None:
            self._judge_alpha(kind.alpha, spec.type, path)
            self._add_plan(name, kind, spec.parameters, path)
        elif current in handlers.PARAMETERS:
            parameters = read_struct(
                handlers.PARAMETERS[current], spec.parameters, f"{path}.parameters", self._problems
            )
            if parameters is not None:
                self.others[name] = (current, parameters)
        else:
            self._add_elsewhere(spec, path)

    def _add_plan(
        self, name: str, kind: type[Plugin], given: dict[str, Any], path: str, *, is_users: bool = False
    ) -> None:
        parameters = read_struct(kind.Parameters, given, f"{path}.parameters", self._problems)
        for field, extra in extras(kind.Parameters).items():
            if "unused" in extra and field in given:
                self._problems.note(f"{path}.parameters.{field}", f"without effect: {extra['unused']}")
        # An invalid plugin gets default parameters, so that references to it are checked too.
        if parameters is None and not any(
            field.required for field in msgspec.structs.fields(kind.Parameters)
        ):
            parameters = kind.Parameters()
        if parameters is not None:
            self.plans[name] = PluginPlan(name=name, kind=kind, parameters=parameters, is_users=is_users)

    def _add_elsewhere(self, spec: document.PluginSpec, path: str) -> None:
        known = elsewhere.TYPES.get(elsewhere.DEPRECATED.get(spec.type, spec.type))
        if known is None:
            self._add_users(spec, path)
            return
        self._judge_alpha(known.alpha, spec.type, path)
        if known.stance == "done" and spec.parameters and known.instead:
            told = f"parameters of {spec.type} have no effect: {known.why}"
            self._problems.warning(f"{path}.parameters", told, known.instead)
        elif known.stance == "done":
            self._problems.note(f"{path}.type", f"{spec.type} is not needed: {known.why}")
        elif known.stance == "queue":
            return
        elif known.stance == "without effect":
            self._problems.warning(f"{path}.type", f"{spec.type} has no effect: {known.why}")
        else:
            self._problems.error(f"{path}.type", f"{spec.type} is not supported: {known.why}")

    def _add_users(self, spec: document.PluginSpec, path: str) -> None:
        """Add a plugin of unknown type, which may be a scorer from another package."""
        try:
            kind = users.find(spec.type)
        except users.UnusableError as error:
            self._problems.error(f"{path}.type", str(error))
            return
        if kind is not None:
            self._add_plan(spec.name or spec.type, kind, spec.parameters, path, is_users=True)
            return
        known = [*PICKER, *users.names(), *handlers.PARAMETERS, *elsewhere.TYPES]
        self._problems.error(f"{path}.type", f"there is no plugin type {spec.type}", meant(spec.type, known))

    def _judge_alpha(self, is_alpha: bool, kind: str, path: str) -> None:
        if is_alpha and not self._allows_alpha:
            told = self._problems.warning if self._allows_alpha is None else self._problems.error
            told(f"{path}.type", f"{kind} is experimental", f"allow it with the setting {ALPHA_FLAG}: true")

    def _judge_producers(self, plan: PluginPlan, path: str) -> None:
        """Check that producers are names of plugins, or types that are built in."""
        said = msgspec.to_builtins(plan.parameters)
        for field, extra in extras(plan.kind.Parameters).items():
            name = said.get(field)
            if extra.get("refers") and name and name not in self.types and name not in elsewhere.TYPES:
                self._problems.error(
                    f"{path}.{field}", f"no plugin is called {name}", meant(name, self.types)
                )


class _Profiles:
    """The profiles that are defined, or derived from the plugins."""

    def __init__(self, plugins: _Plugins, said: Document, problems: Problems) -> None:
        self._plugins = plugins
        self._problems = problems
        self.plans: dict[str, ProfilePlan] = {}
        if not said.scheduling_profiles:
            self._add_default()
        for at, profile in enumerate(said.scheduling_profiles):
            if profile is None:
                continue
            path = f"schedulingProfiles[{at}]"
            if profile.name in self.plans:
                problems.error(
                    f"{path}.name", f"a second profile is called {profile.name}", "give it another name"
                )
            self._add(profile, path)

    def _add_default(self) -> None:
        """Without profiles there is one with all plugins; without scorers and filters, it has the default
        scorers."""
        plans = self._plugins.plans
        used = [name for name, plan in plans.items() if issubclass(plan.kind, Filter | Scorer | Picker)]
        if not any(issubclass(plans[name].kind, Filter | Scorer) for name in used):
            for name, _ in _DEFAULT:
                kind = PICKER[name]
                plans.setdefault(name, PluginPlan(name=name, kind=kind, parameters=kind.Parameters()))
            self.plans["default"] = ProfilePlan(name="default", scorers=_DEFAULT, picker=self._first_picker())
            return
        profile = document.Profile(
            name="default", plugins=tuple(document.Reference(plugin_ref=name) for name in used)
        )
        self._add(profile, "plugins")

    def _add(self, profile: document.Profile, path: str) -> None:
        filters: list[str] = []
        scorers: list[tuple[str, float]] = []
        pickers: list[str] = []
        for at, reference in enumerate(profile.plugins):
            here = f"{path}.plugins[{at}]"
            if reference is None or not self._is_defined(reference, here):
                continue
            name = reference.plugin_ref
            plan = self._plugins.plans.get(name)
            if plan is None:
                self._judge_other(name, here)
                continue
            weight = self._weight(reference, here)
            if issubclass(plan.kind, Filter):
                filters.append(name)
            if issubclass(plan.kind, Scorer):
                scorers.append((name, weight))
            elif reference.weight is not None:
                self._problems.warning(f"{here}.weight", f"{name} is not a scorer: its weight has no effect")
            if issubclass(plan.kind, Picker):
                pickers.append(name)
        if len(pickers) > 1:
            self._problems.error(f"{path}.plugins", f"it has {len(pickers)} pickers", "leave one of them")
        self.plans[profile.name] = ProfilePlan(
            name=profile.name,
            filters=tuple(filters),
            scorers=tuple(scorers),
            picker=pickers[0] if pickers else self._first_picker(),
        )

    def _is_defined(self, reference: document.Reference, path: str) -> bool:
        name = reference.plugin_ref
        if name in self._plugins.types:
            return True
        self._problems.error(
            f"{path}.pluginRef", f"no plugin is called {name}", meant(name, self._plugins.types)
        )
        return False

    def _judge_other(self, name: str, path: str) -> None:
        kind = self._plugins.types[name]
        stance = elsewhere.TYPES.get(elsewhere.DEPRECATED.get(kind, kind))
        if stance is None and kind in handlers.PARAMETERS:
            self._problems.error(
                f"{path}.pluginRef",
                f"{name} is a {kind}, and not a filter, scorer or picker",
                "leave it out of the profile: it is enough to define it",
            )

    def _weight(self, reference: document.Reference, path: str) -> float:
        weight = reference.weight
        if weight is None:
            return 1.0
        if not (0 <= weight < math.inf):
            self._problems.error(f"{path}.weight", f"{shown(weight)} is not a number of at least 0")
        return weight

    def _first_picker(self) -> str | None:
        plans = self._plugins.plans
        return next((name for name, plan in plans.items() if issubclass(plan.kind, Picker)), None)


def _disaggregation(plugins: _Plugins, profiles: _Profiles, problems: Problems) -> Disaggregation | None:
    """The settings of the profile handler, if there is one, checked against the profiles."""
    found = [name for name, kind in plugins.types.items() if kind in handlers.HANDLERS]
    for name in found[1:]:
        problems.error(
            f"{plugins.paths[name]}.type", f"{found[0]} is a profile handler already", "leave one of them"
        )
    apart = [_judged(name, plugins, profiles, problems) for name in found]
    handler = plugins.types[found[0]] if found else handlers.SINGLE
    if handler == handlers.SINGLE and len(profiles.plans) > 1:
        names = ", ".join(profiles.plans)
        problems.error(
            "schedulingProfiles",
            f"nothing says which of {names} is for what",
            f"define a {handlers.DISAGGREGATED}, or leave one profile",
        )
    return apart[0] if apart else None


def _judged(
    handler: str, plugins: _Plugins, profiles: _Profiles, problems: Problems
) -> Disaggregation | None:
    if plugins.types[handler] == handlers.SINGLE or handler not in plugins.others:
        return None
    path = f"{plugins.paths[handler]}.parameters"
    apart = handlers.disaggregation(plugins.others[handler][1], path, plugins.others, problems)
    for role, name in (("decode", apart.decode), ("prefill", apart.prefill)):
        if name is not None and name not in profiles.plans:
            fix = meant(name, profiles.plans)
            problems.error(f"{path}.profiles.{role}", f"there is no scheduling profile {name}", fix)
    return apart
