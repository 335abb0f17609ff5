"""What becomes of scaled models over time: the replicas that were written, and Pods as they become ready."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from headgate import api, cluster
from scaled_objects import NAMESPACE, Scaled


class Written(NamedTuple):
    """A change of replicas, and when it was seen (monotonic seconds)."""

    at: float
    replicas: int


class Seen:
    """Of all models, by their names."""

    def __init__(self, models: Sequence[Scaled]) -> None:
        self._names = sorted((each.name for each in models), key=len, reverse=True)
        self.written: defaultdict[str, list[Written]] = defaultdict(list)
        self.created: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """When each Pod appeared."""
        self.ready: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """When each Pod was first ready."""
        self.now_ready: defaultdict[str, set[str]] = defaultdict(set)
        self.at_once: defaultdict[str, int] = defaultdict(int)
        """The most Pods that were ready at the same time."""

    def replicas(self, name: str) -> int | None:
        """Those that were written last."""
        return self.written[name][-1].replicas if self.written[name] else None

    def reversals(self, name: str) -> int:
        """How often a change was in the other direction than the one before."""
        numbers = [each.replicas for each in self.written[name]]
        steps = [later > before for before, later in itertools.pairwise(numbers)]
        return sum(later is not before for before, later in itertools.pairwise(steps))

    def deployment(self, change: cluster.Change[api.Deployment]) -> None:
        name = self._model(change.object.metadata.name)
        if name is None or change.new is None or change.new.spec.replicas == self.replicas(name):
            return
        self.written[name].append(Written(time.monotonic(), change.new.spec.replicas))

    def pod(self, change: cluster.Change[api.Pod]) -> None:
        metadata = change.object.metadata
        name, now = self._model(metadata.name), time.monotonic()
        if name is None:
            return
        self.created[name].setdefault(metadata.name, now)
        if change.new is not None and change.new.ready and metadata.deletion_timestamp is None:
            self.ready[name].setdefault(metadata.name, now)
            self.now_ready[name].add(metadata.name)
            self.at_once[name] = max(self.at_once[name], len(self.now_ready[name]))
        else:
            self.now_ready[name].discard(metadata.name)

    def _model(self, name: str) -> str | None:
        """Names of workloads and Pods begin with that of the model."""
        return next((each for each in self._names if name == each or name.startswith(f"{each}-")), None)


@contextlib.asynccontextmanager
async def watching(client: cluster.Client, models: Sequence[Scaled]) -> AsyncIterator[Seen]:
    """Follows the models until the end of the block."""
    seen = Seen(models)
    deployments = cluster.Informer(client, api.Deployment, NAMESPACE)
    deployments.subscribe(seen.deployment)
    pods = cluster.Informer(client, api.Pod, NAMESPACE)
    pods.subscribe(seen.pod)
    tasks = [asyncio.create_task(each.run()) for each in (deployments, pods)]
    try:
        await asyncio.gather(deployments.wait_known(60), pods.wait_known(60))
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
