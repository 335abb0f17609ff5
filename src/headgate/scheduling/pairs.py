"""Picks the two endpoints of a request with disaggregated prefill and decode.

The decoding endpoint is picked first, among those with a prefill endpoint in their group. Its cache
determines how much there is to prefill: a small rest is prefilled there. Otherwise the prefill endpoint is
picked in the same group, as for a request of its own.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Mapping, Sequence

import msgspec

from headgate.fleet import EndpointState
from headgate.routing import PrefillDecode
from headgate.scheduling.candidates import candidates
from headgate.scheduling.policy import Policy
from headgate.scheduling.request import Choice, Request

DISAGGREGATED = ""
"""Why a prompt is prefilled where it is decoded; "" if it is not."""
SHORT, CACHED, NO_PREFILL = "short", "cached", "no_prefill"


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions for disaggregating one request."""

    remote_tokens: int = 0
    """With fewer uncached tokens it is not worthwhile; 0 allows all."""
    why_not: str = DISAGGREGATED
    """Why the request's form does not allow it, in a word."""
    decodes_alone: bool = True
    """Whether a decoding endpoint can serve the whole request."""
    keeps_prefix: bool = True
    """Whether the decoding endpoint caches the prompt afterwards."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint that responds, and the one that prefills for it."""

    decode: Choice
    request: Request
    """The request for which the responding endpoint was picked."""
    prefill: Choice | None = None
    """None if the responding endpoint serves the whole request."""
    prefill_request: Request | None = None
    why: str = DISAGGREGATED
    """Why it serves the whole request, in a word."""


class Pairs:
    """The endpoints of a pool by role. Created once per snapshot."""

    __slots__ = ("_groups", "_prefill_of", "decode")

    def __init__(self, loads: Sequence[EndpointState], phases: PrefillDecode) -> None:
        roles = {load: phases.roles[load.endpoint] for load in loads}
        self.decode: Sequence[EndpointState] = [load for load in loads if roles[load].decodes]
        """The endpoints that decode and respond."""
        self._groups: Mapping[EndpointState, str | None] = {load: role.group for load, role in roles.items()}
        by_group: dict[str, list[EndpointState]] = {}
        for load, role in roles.items():
            if role.prefills and role.group is not None:
                by_group.setdefault(role.group, []).append(load)
        self._prefill_of: Mapping[EndpointState, Sequence[EndpointState]] = {
            load: by_group.get(group, ()) if group is not None else ()
            for load in self.decode
            for group in [roles[load].group]
        }

    def prefill_of(self, decode: EndpointState) -> Sequence[EndpointState]:
        """The prefill endpoints of its group, possibly including itself."""
        return self._prefill_of.get(decode, ())

    def decode_with(self, prefill: EndpointState) -> list[EndpointState]:
        """The decoding endpoints of its group."""
        group = self._groups.get(prefill)
        return [load for load in self.decode if group is not None and self._groups[load] == group]


def pick_pair(
    policy: Policy,
    decoding: Policy,
    request: Request,
    pairs: Pairs,
    terms: Terms,
    now: float,
    rng: random.Random,
    tried: Collection[EndpointState] = (),
    tried_prefill: Collection[EndpointState] = (),
    max_requests: int = sys.maxsize,
) -> Pair | None:
    """The endpoints that prefill and decode; None if none is eligible, or a policy refuses all.

    `policy` picks the endpoint that prefills or serves the whole request, `decoding` the one that only
    decodes. A pair whose members cannot serve the request alone is never split.
    """
    asked = candidates(pairs.decode, now, rng, tried, max_requests)
    if not asked:
        return None
    why = terms.why_not or (SHORT if request.prompt_tokens < terms.remote_tokens else DISAGGREGATED)
    if why and terms.decodes_alone:
        return _alone(policy, request, asked, why, now, rng)
    paired = [load for load in asked if _is_paired(pairs, load, terms, now, tried_prefill, max_requests)]
    if not paired:
        return _alone(policy, request, asked, NO_PREFILL, now, rng) if terms.decodes_alone else None
    told = _for_decoding(request, terms)
    decode = decoding.pick(told, paired, now, rng)
    if decode is None:
        return None
    if terms.decodes_alone and request.prompt_tokens - decode.cached_tokens < terms.remote_tokens:
        return Pair(decode=decode, request=told, why=CACHED)
    able = _may_prefill(pairs, decode.load, terms, now, tried_prefill, max_requests)
    prefill_request = request.for_role("prefill", decode.load)
    prefill = policy.pick(prefill_request, candidates(able, now, rng), now, rng)
    if prefill is None:
        return Pair(decode=decode, request=told, why=NO_PREFILL) if terms.decodes_alone else None
    if prefill.first_token_s is not None and decode.first_token_s is not None:
        first_s = prefill.first_token_s + decode.first_token_s
        decode = Choice(load=decode.load, cached_tokens=decode.cached_tokens, first_token_s=first_s)
    return Pair(decode=decode, request=told, prefill=prefill, prefill_request=prefill_request)


def pick_again(
    decoding: Policy,
    pair: Pair,
    pairs: Pairs,
    now: float,
    rng: random.Random,
    tried: Collection[EndpointState],
    max_requests: int = sys.maxsize,
) -> Pair | None:
    """Another endpoint to decode what was prefilled already; None if its group has none."""
    assert pair.prefill is not None
    asked = candidates(pairs.decode_with(pair.prefill.load), now, rng, tried, max_requests)
    decode = decoding.pick(pair.request, asked, now, rng) if asked else None
    return msgspec.structs.replace(pair, decode=decode) if decode is not None else None


def _alone(
    policy: Policy,
    request: Request,
    asked: Sequence[EndpointState],
    why: str,
    now: float,
    rng: random.Random,
) -> Pair | None:
    choice = policy.pick(request, asked, now, rng)
    return Pair(decode=choice, request=request, why=why) if choice is not None else None


def _for_decoding(request: Request, terms: Terms) -> Request:
    """The request for the decoding endpoint, without the prefix if it will not be cached."""
    decoding = request.for_role("decode")
    if terms.keeps_prefix:
        return decoding
    decoding.prefix = decoding.block_ends = ()
    return decoding


def _may_prefill(
    pairs: Pairs,
    decode: EndpointState,
    terms: Terms,
    now: float,
    tried: Collection[EndpointState],
    max_requests: int,
) -> list[EndpointState]:
    """The endpoints that can prefill for `decode`. Ejected ones are used only if no other endpoint can serve
    the request at all."""
    able = [
        load
        for load in pairs.prefill_of(decode)
        if load is not decode and load.requests < max_requests and load not in tried
    ]
    healthy = [load for load in able if load.away_until <= now]
    return healthy if healthy or terms.decodes_alone else able


def _is_paired(
    pairs: Pairs,
    decode: EndpointState,
    terms: Terms,
    now: float,
    tried: Collection[EndpointState],
    max_requests: int,
) -> bool:
    """Whether an endpoint can prefill for `decode`: mostly the first one of its group can."""
    for load in pairs.prefill_of(decode):
        if load is decode or load.requests >= max_requests or load in tried:
            continue
        if load.away_until <= now or not terms.decodes_alone:
            return True
    return False
