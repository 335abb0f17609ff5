"""The default policy for pools whose endpoints have weights: shares of the requests, by plan or by hand.

Endpoints of the same weight are a group. The default policy picks one of each group, and these are compared:

    score = first token, with the surcharge for prefill + requests in flight / weight * beside * steps
          - requests that the group is behind its share * time of this request

in seconds. The second term is that of the default policy, with the weight in place of the speed. A group gets
its share of each request as a credit, and pays for those that it gets. So shares follow the weights over
time, while caches, queues and speeds decide which requests these are.

Three things bound that. A group is never more than MOST_BEHIND requests behind, so an endpoint that proves
slower than its weight says gets less. One whose first token would come more than LATER times as late as
elsewhere, and the time of this request, is left out: it has a queue, or it has stopped. And the time of a
request is that of its tokens that are in no cache, so no prompt leaves its cache for a share.

Weights are relative to the endpoints that can be picked now: the share of one that is full or has failed goes
to all others in proportion, and it does not get it back later.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headgate.fleet import EndpointState
from headgate.scheduling.policy import Policy, Refused
from headgate.scheduling.predicted import PredictedFirstToken, in_flight_tokens
from headgate.scheduling.request import Choice, Request

MOST_BEHIND: Final = 12.0
"""With 16, an endpoint of a third of its expected speed takes a third more of the requests; with 8, shares
are up to 5 % off where speeds differ as planned."""
LATER: Final = 2.0
"""With 1.5, an endpoint that prefills at a quarter of the speed of others is left out though it is idle."""
MOST_GROUPS: Final = 16
"""With more weights, those that are close to each other count as their mean: each group costs a pick of the
default policy, for every request."""
USUAL: Final = 1.0
"""Weight of endpoints without one."""


class Groups(NamedTuple):
    """The endpoints that can be picked, by their weight."""

    candidates: Sequence[EndpointState]
    members: Mapping[float, Sequence[EndpointState]]
    shares: Mapping[float, float]
    """Of the requests, for all endpoints of a weight together; they add up to 1."""
    mean: float
    """Weight of the mean endpoint."""


class Weighted(Policy):
    """Gives each group of endpoints its share of the requests, as far as their load allows it."""

    uses_prefix = True
    judges_decoding = False

    def __init__(self, policy: PredictedFirstToken) -> None:
        self.policy = policy
        self.name = policy.name
        self._weights: Mapping[EndpointState, float] = {}
        self._behind: dict[float, float] = {}
        """Of each group, by its weight: requests that it should have got but has not. They add up to 0."""
        self._groups = Groups((), {}, {}, USUAL)
        """Those of the last pick: mostly, all endpoints of a pool can be picked."""
        self._picked_for: Request | None = None

    def weigh(self, weights: Mapping[EndpointState, float]) -> None:
        weights = _in_few_groups(weights)
        kept = set(weights.values())
        if kept != self._behind.keys():
            self._behind = dict.fromkeys(kept, 0.0)
        self._weights = weights
        self._groups, self._picked_for = Groups((), {}, {}, USUAL), None

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        groups = self._groups
        if candidates is not groups.candidates:
            groups = self._groups = self._grouped(candidates)
        if len(groups.members) < 2 or request.role:
            self._picked_for = None
            return self.policy.pick(request, candidates, now, rng)
        self._picked_for = request
        found: list[tuple[float, float, Choice]] = []
        soonest_s, fewest = math.inf, request.prompt_tokens
        for weight, members in groups.members.items():
            choice = self.policy.pick(request, members, now, rng)
            if choice is None:
                continue
            alone_s = self._alone_s(request, choice, now)
            soonest_s = min(soonest_s, alone_s)
            fewest = min(fewest, request.prompt_tokens - choice.cached_tokens)
            found.append((weight, alone_s, choice))
        pool = candidates[0].estimator.rates.pool
        beside_s = in_flight_tokens(request, pool) * pool.token_s
        worth_s = fewest * pool.token_s + beside_s
        latest_s = LATER * soonest_s + worth_s
        best: Choice | None = None
        least = math.inf
        for weight, alone_s, choice in found:
            score = alone_s + choice.load.requests * groups.mean / weight * beside_s
            score -= (self._behind.get(weight, 0.0) + groups.shares[weight]) * worth_s
            if alone_s <= latest_s and score < least:
                best, least = choice, score
        return best

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        self.policy.booked(request, choice, now)
        if self._picked_for is request:
            self._credit(self._weights.get(choice.load, USUAL), self._groups.shares)

    def _grouped(self, candidates: Sequence[EndpointState]) -> Groups:
        members: dict[float, list[EndpointState]] = {}
        for load in candidates:
            members.setdefault(self._weights.get(load, USUAL), []).append(load)
        total = sum(weight * len(own) for weight, own in members.items())
        shares = {weight: weight * len(own) / total for weight, own in members.items()}
        return Groups(candidates, members, shares, total / max(len(candidates), 1))

    def _alone_s(self, request: Request, choice: Choice, now: float) -> float:
        alone_s = self.policy.alone_s(request, choice, now)
        load = choice.load
        return alone_s / (load.share(now) or 1.0) if load.suspect_until > now else alone_s

    def _credit(self, paying: float, shares: Mapping[float, float]) -> None:
        """Give each group its share of one request, which one of them pays for."""
        behind = self._behind
        for weight, share in shares.items():
            behind[weight] = behind.get(weight, 0.0) + share
        behind[paying] = behind.get(paying, 0.0) - 1.0
        for weight, share in shares.items():
            excess = behind[weight] - MOST_BEHIND
            if excess > 0.0:
                behind[weight] = MOST_BEHIND
                for other, its in shares.items():
                    if other != weight:
                        behind[other] += excess * its / (1.0 - share)

    def scores(
        self, request: Request, candidates: Sequence[EndpointState], now: float
    ) -> Mapping[EndpointState, float]:
        return self.policy.scores(request, candidates, now)

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        return self.policy.why(request, load, choice, now)

    def reasons(
        self, request: Request, candidates: Sequence[EndpointState], choice: Choice | None, now: float
    ) -> Mapping[EndpointState, str]:
        said = self.policy.reasons(request, candidates, choice, now)
        groups = self._grouped(candidates)
        if len(groups.members) < 2 or request.role:
            return said
        return {load: f"{text}; {self._in_words(load, groups)}" for load, text in said.items()}

    def _in_words(self, load: EndpointState, groups: Groups) -> str:
        weight = self._weights.get(load, USUAL)
        behind, count = self._behind.get(weight, 0.0), len(groups.members[weight])
        whose = "it" if count == 1 else f"the {count} endpoints of this weight"
        stands = f"{abs(behind):.1f} requests {'behind' if behind >= 0.0 else 'ahead'}"
        return f"weight {weight:g}: {groups.shares[weight]:.1%} of the requests for {whose}, {stands}"

    def refusal(self, request: Request, candidates: Sequence[EndpointState], now: float) -> Refused:
        return self.policy.refusal(request, candidates, now)

    def statistics(self) -> dict[str, float]:
        """Requests that each group is behind its share, by weight."""
        return {f"{weight:g}": round(behind, 3) for weight, behind in self._behind.items()}

    def validate(self) -> None:
        """Check the invariants; for tests."""
        assert abs(sum(self._behind.values())) < 1e-6
        assert all(each < MOST_BEHIND + 1.0 for each in self._behind.values())


def _in_few_groups(weights: Mapping[EndpointState, float]) -> Mapping[EndpointState, float]:
    """The same weights, or the means of those whose logarithms are close."""
    if len(set(weights.values())) <= MOST_GROUPS:
        return weights
    least, most = math.log(min(weights.values())), math.log(max(weights.values()))
    step = (most - least) / MOST_GROUPS
    members: dict[int, list[EndpointState]] = {}
    for load, weight in weights.items():
        members.setdefault(min(int((math.log(weight) - least) / step), MOST_GROUPS - 1), []).append(load)
    return {load: sum(weights[each] for each in own) / len(own) for own in members.values() for load in own}
