"""Replay a trace with a controller that sets the number of replicas, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headgate.simulator.autoscaling.scaled_fleet import ScaledFleet
from headgate.simulator.autoscaling.work import Ledger, Work
from headgate.simulator.fleet import Slo
from headgate.simulator.model import EngineConfig

TICK_S = 1.0
"""How often replicas are brought up to date and counted, and arrivals counted, as by a gateway."""
LONGEST_TAIL_S = 3600.0
"""How long after the last arrival requests may still be served."""


class Controller(Protocol):
    """Decides about the number of replicas. Called at 0 and once per period."""

    period_s: float

    def desired(self, fleet: ScaledFleet) -> int:
        """How many replicas there should be. The fleet is up to date, and may be read only."""
        ...


class Setting(NamedTuple):
    """The fleet of a replay, and what is expected of it."""

    engine: EngineConfig
    cold_start_s: float
    slo: Slo
    minimum: int = 1
    maximum: int = 1000
    begins_with: int = 1
    """Replicas that are ready when the replay begins."""


class Moment(NamedTuple):
    """The fleet at one tick."""

    at_s: float
    desired: int
    ready: int
    starting: int
    draining: int
    running: int
    waiting: int
    """Prompts in queues of engines and of the gateway."""


class Replay(NamedTuple):
    """What a controller made of a trace."""

    works: Sequence[Work]
    ledger: Ledger
    slo: Slo
    moments: Sequence[Moment]
    replica_hours: float
    """Of replicas that start, serve or drain, until the last arrival."""
    starts: int

    def is_met(self, work: Work) -> bool:
        """Whether a request was served as promised. A single token has no TPOT to miss."""
        return self.has_ttft(work) and self.has_tpot(work)

    def has_ttft(self, work: Work) -> bool:
        return self.ledger.first_s[work.number] - work.at_s <= self.slo.ttft_s

    def has_tpot(self, work: Work) -> bool:
        ended_s = self.ledger.ended_s[work.number]
        decoded_s = ended_s - self.ledger.first_s[work.number]
        return decoded_s <= self.slo.tpot_s * (work.output_tokens - 1) + 1e-9


def replay(works: Sequence[Work], controller: Controller, setting: Setting) -> Replay:
    """Replay requests in order of arrival."""
    ledger = Ledger(len(works))
    fleet = ScaledFleet(setting.engine, setting.cold_start_s, ledger, setting.begins_with)
    moments: list[Moment] = []
    ends_s = works[-1].at_s if works else 0.0
    next_work, tick, decides_at = 0, 0, 0.0
    desired = setting.begins_with
    while tick * TICK_S <= ends_s:
        now = tick * TICK_S
        fleet.advance(now)
        fleet.traffic.sweep(now)
        if now >= decides_at - 1e-9:
            decides_at = max(decides_at + controller.period_s, now)
            desired = min(max(controller.desired(fleet), setting.minimum), setting.maximum)
            fleet.scale(desired)
        moments.append(_moment(fleet, desired))
        tick += 1
        until_s = tick * TICK_S
        while next_work < len(works) and works[next_work].at_s < until_s:
            fleet.arrive(works[next_work])
            next_work += 1
    hours = fleet.replica_s / 3600
    _serve_the_rest(fleet, max(ends_s, fleet.now), works[next_work:])
    return Replay(works, ledger, setting.slo, moments, hours, fleet.starts)


def _serve_the_rest(fleet: ScaledFleet, now: float, works: Sequence[Work]) -> None:
    for work in works:
        fleet.arrive(work)
    ends_s = now + LONGEST_TAIL_S
    while fleet.in_flight and now < ends_s:
        now += TICK_S
        fleet.advance(now)


def _moment(fleet: ScaledFleet, desired: int) -> Moment:
    running = waiting = 0
    for each in fleet.ready:
        running += each.running
        waiting += each.waiting
    for each in fleet.draining:
        running += each.running
        waiting += each.waiting
    return Moment(
        fleet.now,
        desired,
        len(fleet.ready),
        len(fleet.starting),
        len(fleet.draining),
        running,
        waiting + len(fleet.held),
    )
