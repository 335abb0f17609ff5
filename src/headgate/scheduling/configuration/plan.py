"""A valid configuration: profiles of plugins, from which each pool's policy is created."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.scheduling.configuration.fields import extras
from headgate.scheduling.plugins import Filter, Picker, Plugin, PrefixIndex, Scorer, users
from headgate.scheduling.profiles import Composed, Profile


class PluginPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin: its name, its class, and its parameters."""

    name: str
    kind: type[Plugin]
    parameters: msgspec.Struct
    is_users: bool = False
    """Whether it comes from another package."""

    def made(self) -> Plugin:
        plugin = self.kind(self.parameters)
        if self.is_users:
            assert isinstance(plugin, Scorer)
            plugin = users.Guarded(plugin)
        plugin.name = self.name
        return plugin

    def shown(self) -> dict[str, Any]:
        """The plugin for the admin page, with only the parameters that have an effect."""
        said = msgspec.to_builtins(self.parameters)
        without = {name for name, extra in extras(self.kind.Parameters).items() if "unused" in extra}
        return {
            "name": self.name,
            "type": self.kind.kind or self.kind.__name__,
            "parameters": {name: value for name, value in said.items() if name not in without},
        }


class ProfilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of one profile, by name."""

    name: str
    filters: tuple[str, ...] = ()
    scorers: tuple[tuple[str, float], ...] = ()
    picker: str | None = None


class Disaggregation(msgspec.Struct, frozen=True, kw_only=True):
    """Which profile picks for which phase, and when prefill and decode are disaggregated."""

    decode: str
    prefill: str | None = None
    remote_tokens: int = sys.maxsize
    """The least number of uncached tokens for which another endpoint prefills."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration without errors."""

    dialect: str
    plugins: Mapping[str, PluginPlan]
    profiles: Mapping[str, ProfilePlan]
    primary: str
    """The profile that picks the endpoint that responds."""
    disaggregation: Disaggregation | None = None

    def policy(self, prefixes: PrefixIndex, profile: str | None = None) -> Composed:
        """A new policy for one pool; only with the named profile, if it is known."""
        made: dict[str, Plugin] = {}
        chosen = profile if profile in self.profiles else None
        primary = self._profile(chosen or self.primary, made)
        apart = self.disaggregation if chosen is None else None
        if apart is None:
            return Composed(primary, prefixes)
        prefill = self._profile(apart.prefill, made) if apart.prefill is not None else None
        return Composed(primary, prefixes, prefill=prefill, remote_tokens=apart.remote_tokens)

    def _profile(self, name: str, made: dict[str, Plugin]) -> Profile:
        """Profiles of one policy share plugin instances, and so their state."""
        plan = self.profiles[name]

        def plugin(name: str) -> Any:
            if name not in made:
                made[name] = self.plugins[name].made()
            return made[name]

        filters: list[Filter] = [plugin(each) for each in plan.filters]
        scorers: list[tuple[Scorer, float]] = [(plugin(each), weight) for each, weight in plan.scorers]
        picker: Picker | None = plugin(plan.picker) if plan.picker is not None else None
        return Profile(name, filters, scorers, picker)

    def shown(self) -> dict[str, Any]:
        """The plan for the admin page."""
        used = {
            name
            for profile in self.profiles.values()
            for name in (*profile.filters, *(each for each, _ in profile.scorers), profile.picker)
        }
        return {
            "dialect": self.dialect,
            "primary": self.primary,
            "plugins": [plan.shown() for name, plan in self.plugins.items() if name in used],
            "profiles": [
                {
                    "name": profile.name,
                    "filters": list(profile.filters),
                    "scorers": [{"name": name, "weight": weight} for name, weight in profile.scorers],
                    "picker": profile.picker or "max-score-picker",
                }
                for profile in self.profiles.values()
            ],
            "disaggregation": msgspec.to_builtins(self.disaggregation) if self.disaggregation else None,
        }
