"""A bound: replicas by the requests that are still to come, started ahead of time.

It knows all requests. For each slot of a few seconds it takes the fewest replicas with which those that
arrive within the slot and a while after it are served in time, as the replay itself tells. A replica that is
not needed for less time than a start takes is kept, because starting another one would cost as much.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from headgate.simulator.autoscaling import Ledger, Replay, ScaledFleet, Setting, Work, replay

SLOT_S = 15.0
AHEAD_S = 30.0
"""How long after a slot requests are watched."""
LOOK_S = 2.0
"""How often a trial is looked at, to end it when too many are late."""


class Plan(NamedTuple):
    """Replicas for each slot, as if they started at once and for free."""

    replicas: tuple[int, ...]


class Bound(NamedTuple):
    """A plan in a setting."""

    run: Replay
    replica_hours: float


class _Follow:
    """Follows a plan, with starts ahead of time."""

    period_s = SLOT_S

    def __init__(self, plan: Plan, cold_start_s: float) -> None:
        self._replicas = kept(plan, cold_start_s)
        self._ahead = math.ceil(cold_start_s / SLOT_S)

    def desired(self, fleet: ScaledFleet) -> int:
        slot = round(fleet.now / SLOT_S)
        return max(self._replicas[slot : slot + self._ahead + 1], default=self._replicas[-1])


def follow(works: Sequence[Work], plan: Plan, setting: Setting) -> Bound:
    """Replay the plan. Its hours are the plan's: needed replicas, gaps that are kept, and starts."""
    replicas = kept(plan, setting.cold_start_s)
    ahead = math.ceil(setting.cold_start_s / SLOT_S)
    run = replay(
        works, _Follow(plan, setting.cold_start_s), setting._replace(begins_with=max(replicas[: ahead + 1]))
    )
    starts = sum(max(0, after - before) for before, after in itertools.pairwise(replicas))
    seconds = sum(replicas) * SLOT_S + starts * setting.cold_start_s
    return Bound(run, seconds / 3600)


def kept(plan: Plan, cold_start_s: float) -> list[int]:
    """The plan with every replica kept over gaps that are shorter than a start."""
    replicas = list(plan.replicas)
    longest = math.floor(cold_start_s / SLOT_S)
    for level in range(1, max(replicas) + 1):
        last = None
        for slot, count in enumerate(plan.replicas):
            if count < level:
                continue
            if last is not None and 1 < slot - last <= longest + 1:
                for between in range(last + 1, slot):
                    replicas[between] = max(replicas[between], level)
            last = slot
    return replicas


def plan(works: Sequence[Work], setting: Setting, late_share: float) -> Plan:
    """The fewest replicas that leave at most this share of requests late in each slot and after it."""
    ledger = Ledger(len(works))
    at_once = setting._replace(cold_start_s=0.0)
    fleet = ScaledFleet(at_once.engine, 0.0, ledger, 1)
    replicas: list[int] = []
    begins, slot = 0, 0
    while begins < len(works):
        now, ends_s = slot * SLOT_S, (slot + 1) * SLOT_S
        fleet.advance(now)
        end = _until(works, begins, ends_s)
        far = _until(works, end, ends_s + AHEAD_S)
        watched = works[begins:far]
        count = _fewest(fleet, watched, setting, late_share, replicas[-1] if replicas else 1)
        replicas.append(count)
        fleet.scale(count)
        for work in works[begins:end]:
            fleet.arrive(work)
        begins, slot = end, slot + 1
    return Plan(tuple(replicas))


def _until(works: Sequence[Work], begins: int, ends_s: float) -> int:
    while begins < len(works) and works[begins].at_s < ends_s:
        begins += 1
    return begins


def _fewest(
    fleet: ScaledFleet, watched: Sequence[Work], setting: Setting, late_share: float, guess: int
) -> int:
    allowed = late_share * len(watched)

    def holds(count: int) -> bool:
        return _late(fleet, watched, setting, count, allowed) <= allowed

    count = max(guess, 1)
    if holds(count):
        while count > 1 and holds(count - 1):
            count -= 1
        return count
    least = _late(fleet, watched, setting, setting.maximum, float("inf"))
    allowed = max(allowed, least)  # some cannot be helped by any number of replicas
    while not holds(count) and count < setting.maximum:
        count += 1
    return count


def _late(fleet: ScaledFleet, watched: Sequence[Work], setting: Setting, count: int, enough: float) -> int:
    """How many of the requests are late with so many replicas from now on; more than `enough` suffice."""
    if not watched:
        return 0
    trial = fleet.fork()
    trial.scale(count)
    trial.advance(trial.now)
    ledger, slo = trial.ledger, setting.slo
    for work in watched:
        ledger.first_s[work.number] = ledger.ended_s[work.number] = math.nan
    now, ends_s = trial.now, watched[-1].at_s + slo.ttft_s + AHEAD_S
    arrived = due = late = 0
    while now < ends_s and (arrived < len(watched) or trial.in_flight):
        now += LOOK_S
        while arrived < len(watched) and watched[arrived].at_s < now:
            trial.arrive(watched[arrived])
            arrived += 1
        trial.advance(now)
        while due < arrived and watched[due].at_s + slo.ttft_s < now:
            late += not ledger.first_s[watched[due].number] - watched[due].at_s <= slo.ttft_s
            due += 1
        if late > enough:
            return late
    return sum(_is_late(work, trial, setting) for work in watched)


def _is_late(work: Work, trial: ScaledFleet, setting: Setting) -> bool:
    """A response that has not ended yet is in time, so far."""
    slo = setting.slo
    first_s, ended_s = trial.ledger.first_s[work.number], trial.ledger.ended_s[work.number]
    if not first_s - work.at_s <= slo.ttft_s:
        return True
    return ended_s - first_s > slo.tpot_s * (work.output_tokens - 1) + 1e-9
