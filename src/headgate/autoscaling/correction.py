"""How much of a recommended change is made now: stabilization windows, rates, panic and bounds."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headgate.autoscaling import windows
from headgate.autoscaling.history import History
from headgate.autoscaling.policy import Panic, Policy, Rate

__all__ = ["Corrected", "correct", "with_panic"]


class Corrected(NamedTuple):
    desired: int
    rule: str
    """What kept `desired` from the recommendation, last: Panic, StabilizationWindow, Rate or nothing."""
    until: float | None = None
    """When this window or period can allow more, at the earliest."""


def with_panic(policy: Policy, history: History, now: float, current: int, recommended: int) -> History:
    """Begin, extend or end panic mode. From 0 replicas there is no panic, since any number is a surge."""
    panic = policy.panic
    until = history.panic_until
    if panic is None or panic.hold_s <= 0:
        until = None
    elif current > 0 and recommended * 100 >= current * panic.threshold_percent:
        until = now + panic.hold_s
    elif until is not None:
        until = min(until, now + panic.hold_s) if now <= until else None
    return history if until == history.panic_until else msgspec.structs.replace(history, panic_until=until)


def correct(
    policy: Policy,
    history: History,
    now: float,
    current: int,
    recommended: int,
    *,
    is_idle: bool = False,
) -> Corrected:
    """The number of replicas for now. `history` knows the current number, and whether there is panic.

    `is_idle` ignores the stabilization window of scaling down, since the time without requests was one.
    """
    if policy.panic is not None and history.panic_until is not None:
        return _in_panic(policy.panic, history, now, current, recommended)
    if recommended < current:
        return _down(
            policy.down, history, now, current, recommended, 0.0 if is_idle else policy.down.window_s
        )
    if recommended > current:
        return _up(policy.up, history, now, current, recommended)
    return Corrected(current, "")


def _in_panic(panic: Panic, history: History, now: float, current: int, recommended: int) -> Corrected:
    if recommended < current:
        return Corrected(current, "Panic")
    fewest = _held(history.fewest, now, panic.period_s)
    if fewest is not None and fewest[1] > 0:
        at, number = fewest
        bound = max(number + number * panic.percent // 100, current)
        if bound < recommended:
            return Corrected(bound, "Panic", at + panic.period_s)
    return Corrected(recommended, "")


def _down(
    rate: Rate, history: History, now: float, current: int, recommended: int, window_s: float
) -> Corrected:
    found = Corrected(recommended, "")
    if window_s > 0:
        highest = windows.extreme(history.highs, now - window_s, or_at=True)
        if highest is not None and highest[1] > recommended:
            found = Corrected(min(highest[1], current), "StabilizationWindow", highest[0] + window_s)
    most = _held(history.most, now, rate.period_s)
    if most is not None:
        at, number = most
        bounds = number - rate.instances, number - number * rate.percent // 100
        bound = _selected(rate.select, larger=min(bounds), smaller=max(bounds))
        if bound is not None and bound > found.desired:
            found = Corrected(min(bound, current), "Rate", at + rate.period_s)
    return found


def _up(rate: Rate, history: History, now: float, current: int, recommended: int) -> Corrected:
    found = Corrected(recommended, "")
    if rate.window_s > 0:
        lowest = windows.extreme(history.lows, now - rate.window_s, or_at=True)
        if lowest is not None and lowest[1] < recommended:
            found = Corrected(max(lowest[1], current), "StabilizationWindow", lowest[0] + rate.window_s)
    fewest = _held(history.fewest, now, rate.period_s)
    if fewest is not None:
        at, number = fewest
        bounds = number + rate.instances, number + number * rate.percent // 100
        bound = _selected(rate.select, larger=max(bounds), smaller=min(bounds))
        if bound is not None and bound < found.desired:
            found = Corrected(max(bound, current), "Rate", at + rate.period_s)
    return found


def _held(entries: windows.Entries, now: float, period_s: float) -> tuple[float, int] | None:
    """The extreme number of replicas in the period, without its first moment: a step at a pass, and another
    a whole period later, are both allowed."""
    return windows.extreme(entries, now - period_s, or_at=False) if period_s > 0 else None


def _selected(select: str, *, larger: int, smaller: int) -> int | None:
    if select == "Or":
        return larger
    return smaller if select == "And" else None
