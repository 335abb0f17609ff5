"""How long replicas of variants take to start, and why one does not, for requests that wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from headgate import api
from headgate.autoscaling import Observation, PodSample
from headgate.autoscaling.starting import Starts
from headgate.controllers.autoscaling import starts
from headgate.controllers.autoscaling.pools import is_to_serve
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
        self._starts = Starts()
        self._seen_at: float | None = None
        self._failures = starts.Failures()

    def notes(self, workload: Scalable, pods: Sequence[api.Pod], replicas: int, now: float) -> dict[str, str]:
        """The annotations of a pool that starts from zero."""
        own = [each for each in pods if is_to_serve(each)]
        samples = [PodSample(each.metadata.name, each.ready, {}, _created(each)) for each in own]
        ready = sum(each.ready for each in own)
        seen = Observation(now=now, current=workload.spec.replicas, ready=ready, pods=samples, totals={})
        self._starts = self._starts.after(seen, self._seen_at)
        self._seen_at = now
        failed = self._failures.told_of(own, self._starts.coming)
        return starts.notes(self._starts.expected_s, failed if replicas else "")


def _created(pod: api.Pod) -> float | None:
    try:
        return timestamps.parse(pod.metadata.creation_timestamp)
    except ValueError:
        return None
