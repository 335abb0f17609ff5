"""Kthena's fairness scheduling and session boost, by the environment that its router is set with.

Both are settings of the same queue and of what tells whether a pool has room:

- fairness scheduling is `windowed-usage`, with one request every 1/FAIRNESS_MAX_QPS s, or with
  FAIRNESS_MAX_CONCURRENT of them in flight;
- session boost is `session-boost`, with SESSION_BOOST_INFLIGHT_PER_POD of them for each endpoint, as long as
  one of these has none waiting.

The names that say how often a priority is computed again (FAIRNESS_PRIORITY_REFRESH_RETRIES,
FAIRNESS_REBUILD_THRESHOLD) have nothing to set: the order always follows.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.api import duration
from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import BandSettings, FlowSettings, SessionSettings, WindowSettings

LEAST_WINDOW_S, MOST_WINDOW_S = 60.0, 3600.0


class KthenaQueue(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment asks for."""

    flow: FlowSettings
    capacity: CapacitySettings
    flow_header: str = ""
    """The header that says which flow a request is of; "" is the one who asks."""


def from_environment(environment: Mapping[str, str]) -> KthenaQueue | None:
    """The queue that the environment asks for; None if it asks for none.

    ValueError names every variable that is wrong. A window that is too short or too long is the usual one of
    5 minutes, as it is in Kthena.
    """
    read = _Environment(environment)
    fairness, sessions = read.flag("ENABLE_FAIRNESS_SCHEDULING"), read.flag("ENABLE_SESSION_BOOST")
    if fairness and sessions:
        read.problems.append(
            "ENABLE_FAIRNESS_SCHEDULING and ENABLE_SESSION_BOOST: only one of both may be true"
        )
    queue = _fairness(read) if fairness else _sessions(read) if sessions else None
    if read.problems:
        raise ValueError("; ".join(read.problems))
    return queue


class _Environment:
    """Reads variables, and notes what is wrong with them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.problems: list[str] = []

    def flag(self, name: str) -> bool:
        text = self._variables.get(name, "").strip().lower()
        if text not in ("", "0", "f", "false", "1", "t", "true"):
            self.problems.append(f"{name}: must be true or false, got {text!r}")
        return text in ("1", "t", "true")

    def text(self, name: str, default: str) -> str:
        return self._variables.get(name) or default

    def number(self, name: str, default: float, *, least: float = 0.0) -> float:
        text = self._variables.get(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value < float("inf"):
            self.problems.append(f"{name}: must be a number of at least {least:g}, got {text!r}")
            return default
        return value

    def seconds(self, name: str, default: float) -> float:
        text = self._variables.get(name)
        if not text:
            return default
        try:
            return duration.parse(text)
        except ValueError:
            self.problems.append(f"{name}: must be a duration such as 30s or 5m, got {text!r}")
            return default


def _fairness(read: _Environment) -> KthenaQueue:
    window_s = read.seconds("FAIRNESS_WINDOW_SIZE", 300.0)
    if not LEAST_WINDOW_S <= window_s <= MOST_WINDOW_S:
        window_s = 300.0
    token_weight = read.number("FAIRNESS_PRIORITY_TOKEN_WEIGHT", 1.0)
    request_weight = read.number("FAIRNESS_PRIORITY_REQUEST_NUM_WEIGHT", 0.0)
    window = WindowSettings(
        window_s=window_s,
        input_weight=read.number("FAIRNESS_INPUT_TOKEN_WEIGHT", 1.0),
        output_weight=read.number("FAIRNESS_OUTPUT_TOKEN_WEIGHT", 2.0),
        token_weight=token_weight if token_weight or request_weight else 1.0,
        request_weight=request_weight,
    )
    most = int(read.number("FAIRNESS_MAX_CONCURRENT", 0))
    per_s = read.number("FAIRNESS_MAX_QPS", 100.0) or 100.0
    ttl_s = max(read.seconds("FAIRNESS_QUEUE_TIMEOUT", 60.0), 0.0)
    capacity = (
        CapacitySettings(detector="in-flight", most=most)
        if most
        else CapacitySettings(detector="pace", per_s=per_s)
    )
    flow = FlowSettings(ttl_s=ttl_s, band=BandSettings(fairness="windowed-usage"), window=window)
    return KthenaQueue(flow=flow, capacity=capacity)


def _sessions(read: _Environment) -> KthenaQueue:
    sessions = SessionSettings(
        max_sessions=int(read.number("SESSION_BOOST_MAX_SESSIONS", 4096, least=1)),
        grace_s=max(read.seconds("SESSION_BOOST_GRACE_PERIOD", 0.0), 0.0),
    )
    per_endpoint = int(read.number("SESSION_BOOST_INFLIGHT_PER_POD", 16, least=1))
    ttl_s = max(read.seconds("SESSION_BOOST_TIMEOUT", 30.0), 0.0)
    return KthenaQueue(
        flow=FlowSettings(ttl_s=ttl_s, band=BandSettings(fairness="session-boost"), sessions=sessions),
        capacity=CapacitySettings(detector="session-room", per_endpoint=per_endpoint),
        flow_header=read.text("SESSION_BOOST_HEADER", "X-Session-ID").lower(),
    )
