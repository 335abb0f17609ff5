"""Keeps the sidecars of Pods informed of the adapters they should load, and asks how far they are.

A sidecar is told when the desired adapters change, and when it or its engine starts. It is asked again only
while something is on its way: adapters that load, downloads that run.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate import cluster
from headgate.controllers.model.sidecars import (
    MOST_AT_ONCE,
    Adapter,
    AdapterState,
    Address,
    Download,
    SidecarError,
    Sidecars,
)

WORKERS = MOST_AT_ONCE
MOST_EACH = 4
"""Requests at a time to the sidecars of one Model, so that silent Pods do not hold up those of others."""
POSTPONED_S = 10.0
"""When a Pod that waits for others of its Model is looked at again at the latest."""
LOADING_S = 2.0
"""How often to ask for adapters that are being loaded."""
FAILED_S = 15.0
"""The same if one failed, which the sidecar tries again."""
DOWNLOADING_S = 5.0
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
LOADING: Final = "Loading"
LOADED: Final = "Loaded"
FAILED: Final = "Failed"


class Duty(NamedTuple):
    """What there is to do for one Pod."""

    model: str
    """UID of the Model."""
    address: Address
    token: str
    adapters: tuple[Adapter, ...] | None
    """All that its engine should have; None if it needs no telling."""
    runs: tuple[str, str]
    """Identify the current runs of the sidecar and of the engine."""
    is_ready: bool
    downloads: bool
    """Whether a download runs."""


@dataclass
class _Pod:
    """What is known from the sidecar of a Pod."""

    duty: Duty
    told: tuple[object, ...] = ()
    """The last that it accepted: adapters, and the runs of sidecar and engine."""
    states: Sequence[AdapterState] = ()
    downloads: Sequence[Download] = ()
    error: str = ""
    """Why the last request failed."""
    failures: int = 0


class SidecarLoop:
    """The requests to all sidecars, beside the reconciliation of Models: none waits for a slow Pod."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """`changed` is called with the UID of a Model when there is news from its Pods."""
        self._changed = changed
        self._pods: dict[str, _Pod] = {}
        """By the UIDs of Pods."""
        self._of_model: dict[str, set[str]] = {}
        self._queue: cluster.WorkQueue[str] = cluster.WorkQueue()
        self._busy: collections.Counter[str] = collections.Counter()
        """Requests in progress, by Model."""
        self._postponed: dict[str, dict[str, None]] = {}
        """Pods that wait until another one of their Model is done, by Model."""
        self.requests = self.failures = 0

    async def run(self) -> None:
        """Run until cancelled."""
        async with Sidecars() as sidecars:

            async def work(uid: str) -> float | None:
                pod = self._pods.get(uid)
                return await self._in_turn(sidecars, uid, pod) if pod is not None else None

            await cluster.run_workers(self._queue, work, WORKERS)

    def assign(self, model: str, duties: dict[str, Duty]) -> None:
        """Replace what there is to do for the Pods of a Model, by their UIDs."""
        for uid in self._of_model.get(model, set()) - duties.keys():
            del self._pods[uid]
        self._of_model[model] = {*duties}
        if not duties:
            del self._of_model[model]
            return
        for uid, duty in duties.items():
            pod = self._pods.setdefault(uid, _Pod(duty))
            pod.duty = duty
            if _is_due(pod):
                self._queue.add(uid)

    def states(self, pod: str) -> Sequence[AdapterState]:
        """How adapters stand in a Pod: what it said last, or why it cannot be asked."""
        known = self._pods.get(pod)
        if known is None or known.duty.adapters is None:
            return ()
        said = {each.name: each for each in known.states}
        found = []
        for adapter in known.duty.adapters:
            state = said.get(adapter.name)
            if known.error or state is None or state.source != adapter.source:
                state = AdapterState(adapter.name, adapter.source, LOADING, known.error)
            found.append(state)
        return found

    def downloads(self, pod: str) -> Sequence[Download]:
        """Downloads that run in a Pod, as of its last report."""
        known = self._pods.get(pod)
        return known.downloads if known is not None and known.duty.downloads else ()

    async def _in_turn(self, sidecars: Sidecars, uid: str, pod: _Pod) -> float | None:
        """Attend to the Pod, or postpone it."""
        model = pod.duty.model
        if self._busy[model] >= MOST_EACH:
            self._postponed.setdefault(model, {})[uid] = None
            return POSTPONED_S
        self._busy[model] += 1
        try:
            return await self._attend(sidecars, pod)
        finally:
            self._busy[model] -= 1
            if not self._busy[model]:
                del self._busy[model]
            if postponed := self._postponed.pop(model, None):
                following = next(iter(postponed))
                del postponed[following]
                self._queue.add(following)
                if postponed:
                    self._postponed[model] = postponed

    async def _attend(self, sidecars: Sidecars, pod: _Pod) -> float | None:
        """Returns the seconds after which there is more to do; None if nothing is on its way."""
        duty, before = pod.duty, (pod.states, pod.downloads, pod.error)
        try:
            waits = [await self._adapters(sidecars, pod, duty), await self._downloads(sidecars, pod, duty)]
        except SidecarError as error:
            pod.error, pod.failures = str(error), pod.failures + 1
            waits = [min(FIRST_RETRY_S * 2.0 ** min(pod.failures, 10), LAST_RETRY_S)]
            self.failures += 1
        else:
            pod.error, pod.failures = "", 0
        self.requests += 1
        if (pod.states, pod.downloads, pod.error) != before:
            self._changed(duty.model)
        return min((each for each in waits if each is not None), default=None)

    async def _adapters(self, sidecars: Sidecars, pod: _Pod, duty: Duty) -> float | None:
        if duty.adapters is None:
            return None
        wanted = (duty.adapters, duty.runs)
        if pod.told != wanted:
            pod.states = await sidecars.put_adapters(duty.address, duty.token, duty.adapters)
            pod.told = wanted
        elif duty.is_ready:
            pod.states = await sidecars.adapters(duty.address, duty.token)
        if not duty.is_ready or _is_settled(pod):
            return None
        return FAILED_S if any(each.state == FAILED for each in pod.states) else LOADING_S

    async def _downloads(self, sidecars: Sidecars, pod: _Pod, duty: Duty) -> float | None:
        if not duty.downloads:
            pod.downloads = ()
            return None
        pod.downloads = await sidecars.downloads(duty.address, duty.token)
        return DOWNLOADING_S


def _is_due(pod: _Pod) -> bool:
    duty = pod.duty
    if duty.downloads:
        return not pod.downloads and not pod.error
    if duty.adapters is None or pod.error:
        return False
    return pod.told != (duty.adapters, duty.runs) or (duty.is_ready and not _is_settled(pod))


def _is_settled(pod: _Pod) -> bool:
    """Whether all adapters are loaded."""
    wanted = pod.duty.adapters or ()
    return len(pod.states) == len(wanted) and all(each.state == LOADED for each in pod.states)
