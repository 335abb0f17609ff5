"""Kthena's fairness scheduling and session boost, by the environment variables of its router.

Values that Kthena would reject are reported, and the defaults apply, as in Kthena.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from headgate.flow.capacity import CapacitySettings
from headgate.flow.configuration.queueing import Queueing
from headgate.flow.queue import BandSettings, FlowSettings
from headgate.flow.queue.settings import SessionSettings, WindowSettings
from headgate.kubeschema import duration
from headgate.scheduling.configuration import Problems

FAIRNESS, SESSIONS = "ENABLE_FAIRNESS_SCHEDULING", "ENABLE_SESSION_BOOST"
ENVIRONMENT = (
    FAIRNESS,
    SESSIONS,
    "FAIRNESS_QUEUE_TIMEOUT",
    "FAIRNESS_WINDOW_SIZE",
    "FAIRNESS_INPUT_TOKEN_WEIGHT",
    "FAIRNESS_OUTPUT_TOKEN_WEIGHT",
    "FAIRNESS_PRIORITY_TOKEN_WEIGHT",
    "FAIRNESS_PRIORITY_REQUEST_NUM_WEIGHT",
    "FAIRNESS_MAX_CONCURRENT",
    "FAIRNESS_MAX_QPS",
    "FAIRNESS_PRIORITY_REFRESH_RETRIES",
    "FAIRNESS_REBUILD_THRESHOLD",
    "SESSION_BOOST_HEADER",
    "SESSION_BOOST_MAX_SESSIONS",
    "SESSION_BOOST_INFLIGHT_PER_POD",
    "SESSION_BOOST_GRACE_PERIOD",
    "SESSION_BOOST_TIMEOUT",
)
"""All variables that are read."""
_Number = TypeVar("_Number", int, float)
_WITHOUT_EFFECT = ("FAIRNESS_PRIORITY_REFRESH_RETRIES", "FAIRNESS_REBUILD_THRESHOLD")
_BOOLEANS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False, "": False}
_SHORTEST_WINDOW_S, _LONGEST_WINDOW_S = 60.0, 3600.0


def of_kthena(environment: Mapping[str, str], problems: Problems) -> Queueing | None:
    """Queue settings of an environment; None if neither feature is on."""
    said = _Environment(environment, problems)
    is_fair, is_boosted = said.boolean(FAIRNESS), said.boolean(SESSIONS)
    if is_fair and is_boosted:
        problems.error(SESSIONS, f"{FAIRNESS} is set as well, but there is one queue", "unset one of them")
        return None
    for switch, is_on, prefix in (
        (FAIRNESS, is_fair, "FAIRNESS_"),
        (SESSIONS, is_boosted, "SESSION_BOOST_"),
    ):
        for name in ENVIRONMENT:
            if name.startswith(prefix) and said.text(name) and not is_on:
                problems.note(name, f"without effect, as {switch} is not true")
    if is_fair:
        return _fairness(said)
    return _sessions(said) if is_boosted else None


def _fairness(said: _Environment) -> Queueing:
    for name in _WITHOUT_EFFECT:
        if said.text(name):
            said.problems.note(name, "not needed: the order is always computed from current values")
    token_weight = said.weight("FAIRNESS_PRIORITY_TOKEN_WEIGHT", 1.0)
    request_weight = said.weight("FAIRNESS_PRIORITY_REQUEST_NUM_WEIGHT", 0.0)
    at_once = said.count("FAIRNESS_MAX_CONCURRENT", 0, least=0)
    window = WindowSettings(
        window_s=said.seconds(
            "FAIRNESS_WINDOW_SIZE", 300.0, least=_SHORTEST_WINDOW_S, most=_LONGEST_WINDOW_S
        ),
        input_weight=said.weight("FAIRNESS_INPUT_TOKEN_WEIGHT", 1.0),
        output_weight=said.weight("FAIRNESS_OUTPUT_TOKEN_WEIGHT", 2.0),
        token_weight=token_weight if token_weight or request_weight else 1.0,
        request_weight=request_weight,
    )
    ttl_s = said.seconds("FAIRNESS_QUEUE_TIMEOUT", 60.0)
    if at_once:
        capacity = CapacitySettings(detector="in-flight", most=at_once)
    else:
        capacity = CapacitySettings(
            detector="pace", per_s=float(said.count("FAIRNESS_MAX_QPS", 100, least=1))
        )
    return Queueing(
        flow=FlowSettings(ttl_s=ttl_s, band=BandSettings(fairness="windowed-usage"), window=window),
        capacity=capacity,
    )


def _sessions(said: _Environment) -> Queueing:
    sessions = SessionSettings(
        max_sessions=said.count("SESSION_BOOST_MAX_SESSIONS", 4096, least=1),
        grace_s=said.seconds("SESSION_BOOST_GRACE_PERIOD", 0.0),
    )
    return Queueing(
        flow=FlowSettings(
            ttl_s=said.seconds("SESSION_BOOST_TIMEOUT", 30.0, least=-math.inf),
            band=BandSettings(fairness="session-boost"),
            sessions=sessions,
        ),
        capacity=CapacitySettings(
            detector="session-room", per_endpoint=said.count("SESSION_BOOST_INFLIGHT_PER_POD", 16, least=1)
        ),
        flow_header=(said.text("SESSION_BOOST_HEADER") or "X-Session-ID").lower(),
    )


class _Environment:
    """Values by name; an invalid one is reported, and its default applies."""

    def __init__(self, environment: Mapping[str, str], problems: Problems) -> None:
        self._environment = environment
        self.problems = problems

    def text(self, name: str) -> str:
        return self._environment.get(name, "").strip()

    def boolean(self, name: str) -> bool:
        found = _BOOLEANS.get(self.text(name).lower())
        if found is None:
            self.problems.error(name, f"{self.text(name)!r} is neither true nor false", "use true or false")
        return bool(found)

    def weight(self, name: str, default: float) -> float:
        def is_weight(value: float) -> bool:
            return 0 <= value < math.inf

        return self._number(name, default, float, is_weight, "a number of at least 0")

    def count(self, name: str, default: int, *, least: int) -> int:
        return self._number(
            name, default, int, lambda value: value >= least, f"a whole number of at least {least}"
        )

    def seconds(self, name: str, default: float, *, least: float = 0.0, most: float = math.inf) -> float:
        """A duration in seconds. A negative value, where allowed, becomes 0: no time limit."""
        span = f" of at least {duration.format(least)}" if least > -math.inf else ""
        if most < math.inf:
            span = f" from {duration.format(least)} to {duration.format(most)}"
        found = self._number(
            name,
            default,
            duration.parse,
            lambda value: least <= value <= most,
            f"a duration{span}",
            duration.format,
        )
        return max(found, 0.0)

    def _number(
        self,
        name: str,
        default: _Number,
        read: Callable[[str], _Number],
        fits: Callable[[_Number], bool],
        wanted: str,
        written: Callable[[_Number], str] = "{:g}".format,
    ) -> _Number:
        text = self.text(name)
        if not text:
            return default
        try:
            value = read(text)
        except ValueError:
            pass
        else:
            if fits(value):
                return value
        fix = f"write {duration.meant(text)}" if read is duration.parse and duration.meant(text) else ""
        self.problems.warning(name, f"{text[:64]!r} is not {wanted}: {written(default)} stands", fix)
        return default
