"""When a Pod counts as available: ready, and for long enough. Pure; `wall_s` is Unix time."""

from collections.abc import Iterable
from dataclasses import dataclass

from headgate import api
from headgate.kubeschema import timestamps
from headgate.node.workloads import is_active


@dataclass(frozen=True)
class Counts:
    """How the replicas of a set are."""

    replicas: int
    ready: int
    available: int
    next_available_s: float | None = None
    """Seconds until the next ready Pod becomes available by time alone."""


def count(pods: Iterable[api.Pod], min_ready_s: int, wall_s: float) -> Counts:
    """Counts active Pods."""
    active = [pod for pod in pods if is_active(pod)]
    waits = [_wait_s(pod, min_ready_s, wall_s) for pod in active if pod.ready]
    pending = [wait for wait in waits if wait > 0]
    return Counts(len(active), len(waits), len(waits) - len(pending), min(pending, default=None))


def _wait_s(pod: api.Pod, min_ready_s: int, wall_s: float) -> float:
    """How long a ready Pod must stay so to be available."""
    if min_ready_s <= 0:
        return 0.0
    since = next((each.last_transition_time for each in pod.status.conditions if each.type == "Ready"), None)
    return timestamps.parse(since) + min_ready_s - wall_s if since else float(min_ready_s)
