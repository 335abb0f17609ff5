"""A policy made of plugins, with one profile per phase if prefill and decode are disaggregated."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.plugins import Cycle, NoPrefixes, Plugin, PrefixIndex, users
from headgate.scheduling.policy import Policy, Refused
from headgate.scheduling.profiles.profile import Profile
from headgate.scheduling.request import Choice, Request


class Composed(Policy):
    """Uses one profile for every request, or another one to pick the prefill endpoint."""

    def __init__(
        self,
        profile: Profile,
        prefixes: PrefixIndex | None = None,
        *,
        prefill: Profile | None = None,
        remote_tokens: int | None = None,
    ) -> None:
        self.name = profile.name
        self.profile = profile
        """Picks the endpoint that responds."""
        self.prefill = prefill or profile
        """Picks the endpoint that prefills for it."""
        self.remote_tokens = remote_tokens
        self._prefixes = prefixes or NoPrefixes()
        answering, prefilling = list(profile.plugins()), list(self.prefill.plugins())
        plugins = [*answering, *(each for each in prefilling if each not in answering)]
        self.uses_prefix = any(plugin.uses_prefix for plugin in plugins)
        wanted = [plugin.first_block_bytes for plugin in plugins if plugin.first_block_bytes]
        self.first_block_bytes = min(wanted, default=0)
        self.judges_adapters = any(plugin.judges_adapters for plugin in plugins)
        # Plugins in both profiles remember and mark the responding endpoint.
        self._remembering = [each for each in answering if each.remembers]
        self._remembering_prefill = [
            each
            for each in prefilling
            if each.remembers and not (each.means_one_endpoint and each in answering)
        ]
        self._marking = [each for each in answering if type(each).mark is not Plugin.mark]
        self._marking_prefill = [
            each for each in prefilling if type(each).mark is not Plugin.mark and each not in answering
        ]
        self.marks_responses = bool(self._marking or self._marking_prefill)
        self._last: Cycle | None = None
        """The cycle of the last pick, reused when it is booked."""

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        cycle = self._last = Cycle(request, now, rng, self._prefixes, request.peer)
        load = self._profile(request).pick(cycle, candidates)
        if load is None:
            return None
        return Choice(load=load, cached_tokens=cycle.cached_tokens(load) if request.prefix else 0)

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        remembering = self._remembering_prefill if request.role == "prefill" else self._remembering
        if remembering:
            cycle = self._last
            if cycle is None or cycle.request is not request:
                cycle = self._asked(request, now)
            for plugin in remembering:
                plugin.booked(cycle, choice.load)
        if request.prefix:
            self._prefixes.add(request.prefix, choice.load, now)

    def refusal(self, request: Request, candidates: Sequence[EndpointState], now: float) -> Refused:
        by = self._profile(request).leaves_none(self._asked(request, now), candidates)
        if by is None:
            return super().refusal(request, candidates, now)
        return Refused(why=f"{by.name} leaves none of its endpoints", is_busy=by.about_load)

    def reasons(
        self, request: Request, candidates: Sequence[EndpointState], choice: Choice | None, now: float
    ) -> Mapping[EndpointState, str]:
        profile = self._profile(request)
        return profile.reasons(self._asked(request, now), candidates) if candidates else {}

    def scores(
        self, request: Request, candidates: Sequence[EndpointState], now: float
    ) -> Mapping[EndpointState, float]:
        """The sums of the scorers, for the candidates that the filters keep."""
        cycle = self._asked(request, now)
        profile = self._profile(request)
        if not profile.scorers:
            return {}
        for each in profile.filters:
            candidates = each.keep(cycle, candidates)
        if not candidates:
            return {}
        return dict(zip(candidates, profile.totals(cycle, candidates), strict=True))

    def marks(self, request: Request, choice: Choice) -> Sequence[tuple[bytes, bytes]]:
        marking = self._marking_prefill if request.role == "prefill" else self._marking
        found = [plugin.mark(request, choice.load) for plugin in marking]
        return [mark for mark in found if mark is not None]

    def failures(self) -> dict[str, int]:
        """How often each scorer from another package has failed."""
        scorers = (*self.profile.scorers, *self.prefill.scorers)
        return {each.name: each.failures for each, _ in scorers if isinstance(each, users.Guarded)}

    def _profile(self, request: Request) -> Profile:
        return self.prefill if request.role == "prefill" else self.profile

    def _asked(self, request: Request, now: float) -> Cycle:
        """A cycle for a query without effects, with the fixed seed of explanations."""
        chance = random.Random(0)  # noqa: S311 - not for secrets
        return Cycle(request, now, chance, self._prefixes, request.peer)
