"""Learns the profiles of variants from the loads that they have, and keeps them beside their objects.

A load tells something of one kind of engine if one variant alone serves the model. What was learned is
written as an annotation, so that a new leader and `headgate plan explain` have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.planning.noting import annotate
from headgate.controllers.planning.status import Found
from headgate.planning.assembling import Group
from headgate.planning.fitting import Fitted
from headgate.planning.learned import Key, LearnedProfiles, of_load
from headgate.planning.lines import FACTOR
from headgate.planning.load import Load
from headgate.planning.replica import ModelError, Profile
from headgate.planning.variants import Variant

OBSERVED_S: Final = 30.0
"""Loads of a model are means over a time, so two within this time are one observation."""
STEADY_S: Final = 75.0
"""How long the replicas must have been the same: means over a minute are then those of so many."""
QUEUED: Final = 0.1
"""Nothing is learned if a larger part of the requests may have waited in engines."""
WRITTEN_S: Final = 300.0
"""An annotation is written at most so often."""
CHANGED: Final = 0.1
"""It is written again once a parameter differs by this part."""
_PARAMETERS: Final = ("alpha", "beta", "gamma", "delta")
_LOWEST: Final = 0.99 / FACTOR
"""Least part of the spec's value that a learned one has; rounded."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The annotation: what is planned with, in milliseconds, and the spec's values that it stands for."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    observations: int = 0
    spec: dict[str, float] = {}


class _Steady(NamedTuple):
    replicas: int
    since: float
    observed_at: float


class Learning:
    """All that is learned. Times are seconds of the wall clock."""

    def __init__(self) -> None:
        self._learned = LearnedProfiles()
        self._steady: dict[Group, _Steady] = {}
        self._written: dict[api.ObjectKey, float] = {}

    def observe(self, found: Mapping[api.ObjectKey, Found], loads: Mapping[Group, Load], now: float) -> None:
        """Take what the loads of a pass tell."""
        members: defaultdict[Group, list[Found]] = defaultdict(list)
        for each in found.values():
            members[each.variant.group].append(each)
        steady: dict[Group, _Steady] = {}
        for group, own in members.items():
            serving = [each for each in own if each.pods]
            if len(serving) == 1 and (load := loads.get(group)) is not None:
                steady[group] = self._observe(serving[0], load, self._steady.get(group), now)
        self._steady = steady
        self._learned.keep_only({_key(each.variant) for each in found.values()})
        self._written = {key: at for key, at in self._written.items() if key in found}

    def _observe(self, found: Found, load: Load, before: _Steady | None, now: float) -> _Steady:
        replicas = sum(pod.ready for pod in found.pods)
        if before is None or before.replicas != replicas or now < before.since:
            return _Steady(replicas, now, 0.0)
        is_early = now - before.since < STEADY_S or 0 <= now - before.observed_at < OBSERVED_S
        performance = found.variant.performance
        if is_early or replicas < len(found.pods) or performance is None:
            return before
        seen = of_load(
            arrivals_per_s=load.arrivals_per_s,
            prompt_tokens=load.prompt_tokens,
            output_tokens=load.output_tokens,
            ttft_ms=load.ttft_ms,
            itl_ms=load.itl_ms,
            replicas=replicas,
            max_batch=performance.max_batch_size,
            cached_share=load.cached_share,
            waiting=load.waiting or _queued(load),
        )
        if seen is not None:
            self._learned.observe(
                _key(found.variant), seen.batch, seen.prompt_tokens, seen.ttft_ms, seen.itl_ms, now
            )
        return before._replace(observed_at=now)

    def profile_of(self, obj: api.VariantAutoscaling, variant: Variant) -> Profile | None:
        """What to plan with; None: what the spec says."""
        spec = _spec(variant)
        if spec is None:
            return None
        known, fitted = kept(obj, spec), self._learned.fitted(_key(variant), spec)
        found = _profile(known) if known is not None else spec
        if fitted is not None and fitted.decode.is_used:
            own = fitted.profile
            found = msgspec.structs.replace(found, alpha_ms=own.alpha_ms, beta_ms=own.beta_ms)
        if fitted is not None and fitted.prefill.is_used:
            own = fitted.profile
            found = msgspec.structs.replace(found, gamma_ms=own.gamma_ms, delta_ms=own.delta_ms)
        return None if found == spec else found

    def parameters(
        self, obj: api.VariantAutoscaling, variant: Variant
    ) -> Iterator[tuple[tuple[str, str], float]]:
        """Values by parameter and source: spec, and learned if there is anything learned."""
        for source, profile in (("spec", _spec(variant)), ("learned", self.profile_of(obj, variant))):
            if profile is not None:
                for name in _PARAMETERS:
                    yield (name, source), getattr(profile, f"{name}_ms")

    async def keep(
        self, client: cluster.Client, obj: api.VariantAutoscaling, variant: Variant, now: float
    ) -> None:
        """Write the annotation if it is due. Raises ApiError other than NotFound, Conflict, Forbidden and
        Invalid."""
        key = obj.metadata.key
        if 0 <= now - self._written.get(key, -WRITTEN_S) < WRITTEN_S:
            return
        due, is_due = self._due(obj, variant)
        if not is_due:
            return
        self._written[key] = now
        text = msgspec.json.encode(due).decode() if due is not None else None
        await annotate(client, obj, marks.LEARNED_PROFILE, text, "profile")

    def _due(self, obj: api.VariantAutoscaling, variant: Variant) -> tuple[Kept | None, bool]:
        """The annotation, and whether it has to be written."""
        spec = _spec(variant)
        if spec is None:
            return None, False
        before = kept(obj, spec)
        fitted = self._learned.fitted(_key(variant), spec)
        profile = self.profile_of(obj, variant)
        if fitted is None or profile is None or not (fitted.decode.is_used or fitted.prefill.is_used):
            # Of another spec, or not readable: nobody should take it for true.
            return None, before is None and marks.LEARNED_PROFILE in obj.metadata.annotations
        due = Kept(
            **{name: _rounded(getattr(profile, f"{name}_ms")) for name in _PARAMETERS},
            observations=_observations(fitted),
            spec={name: getattr(spec, f"{name}_ms") for name in _PARAMETERS},
        )
        return due, before is None or _differ(before, due)


def _queued(load: Load) -> int:
    """Requests that waited in engines, if these are more than a few: TTFT is no time of the engine alone."""
    return load.queued_requests if load.queued_requests > QUEUED * load.timed_requests else 0


def _key(variant: Variant) -> Key:
    """Within a namespace: others may run other engines, and must not decide on the replicas of this one."""
    return variant.key.namespace, variant.model, variant.accelerator, str(variant.count)


def _spec(variant: Variant) -> Profile | None:
    performance = variant.performance
    if performance is None:
        return None
    return Profile(
        alpha_ms=performance.decode_parms.alpha,
        beta_ms=performance.decode_parms.beta,
        gamma_ms=performance.prefill_parms.gamma,
        delta_ms=performance.prefill_parms.delta,
    )


def kept(obj: api.VariantAutoscaling, spec: Profile) -> Kept | None:
    """The annotation, if it stands for the values that the spec has now."""
    text = obj.metadata.annotations.get(marks.LEARNED_PROFILE)
    if text is None or len(text) > 1024:
        return None
    try:
        found = msgspec.json.decode(text, type=Kept)
        _profile(found)
    except (msgspec.MsgspecError, RecursionError, ModelError):
        return None
    values = {name: getattr(spec, f"{name}_ms") for name in _PARAMETERS}
    is_of_spec = all(found.spec.get(name) == value for name, value in values.items())
    # No fit goes below: somebody else wrote it.
    is_learned = all(getattr(found, name) >= _LOWEST * value for name, value in values.items())
    return found if is_of_spec and is_learned else None


def _profile(kept: Kept) -> Profile:
    """Raises ModelError."""
    return Profile(alpha_ms=kept.alpha, beta_ms=kept.beta, gamma_ms=kept.gamma, delta_ms=kept.delta)


def _observations(fitted: Fitted) -> int:
    return max(fitted.decode.observations, fitted.prefill.observations)


def _differ(before: Kept, due: Kept) -> bool:
    pairs = [(getattr(before, name), getattr(due, name)) for name in _PARAMETERS]
    return any(abs(new - old) > CHANGED * max(old, new) for old, new in pairs)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
