"""How long replicas of variants take to start, and why one does not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from headgate import api
from headgate.autoscaling import Observation, PodSample
from headgate.autoscaling.starting import Starts
from headgate.controllers.autoscaling import starts
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.controllers.planning.actuating import Window
from headgate.kubeschema import timestamps


class Memory:
    """What is known of one workload besides its objects."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        """Of the VariantAutoscaling."""
        self.window = Window()
        """Of the replicas that are written directly."""
        self._failures = starts.Failures()

    def notes(self, pods: Sequence[api.Pod], learned: Starts, replicas: int) -> dict[str, str]:
        """The annotations of a pool that starts from zero."""
        failed = self._failures.told_of(pods, learned.coming)
        return starts.notes(learned.expected_s, failed if replicas else "")


class _Seen(NamedTuple):
    uid: str
    """Of the VariantAutoscaling."""
    at: float
    starts: Starts


class StartTimes:
    """Learns them from Pods that became ready."""

    def __init__(self) -> None:
        self._seen: dict[api.ObjectKey, _Seen] = {}

    def learn(
        self, obj: api.VariantAutoscaling, workload: Scalable, pods: Sequence[api.Pod], now: float
    ) -> Starts:
        """With the Pods of a workload that are to serve."""
        key, uid = obj.metadata.key, obj.metadata.uid
        before = self._seen.get(key)
        if before is not None and before.uid != uid:
            before = None
        samples = [PodSample(each.metadata.name, each.ready, {}, _created(each)) for each in pods]
        ready = sum(each.ready for each in pods)
        seen = Observation(now=now, current=workload.spec.replicas, ready=ready, pods=samples, totals={})
        known = before.starts if before is not None else Starts()
        found = known.after(seen, before.at if before is not None else None)
        self._seen[key] = _Seen(uid, now, found)
        return found

    def keep_only(self, keys: Collection[api.ObjectKey]) -> None:
        """Forget all others."""
        self._seen = {key: each for key, each in self._seen.items() if key in keys}


def _created(pod: api.Pod) -> float | None:
    try:
        return timestamps.parse(pod.metadata.creation_timestamp)
    except ValueError:
        return None
