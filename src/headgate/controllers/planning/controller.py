"""Plans the replicas of VariantAutoscalings: reads, plans all together, and reports; now and then, and at
once when something changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from headgate import api, cluster
from headgate.api.llmd import VariantAutoscalingStatus
from headgate.controllers import conditions
from headgate.controllers.autoscaling import AutoscalingController
from headgate.controllers.planning import noting, owners, status
from headgate.controllers.planning.acting import Acting
from headgate.controllers.planning.collecting import Server
from headgate.controllers.planning.figures import Figure, Figures
from headgate.controllers.planning.following import Followed
from headgate.controllers.planning.passes import Passes
from headgate.controllers.planning.prometheus_loads import PrometheusLoads
from headgate.controllers.planning.settings import PlanningSettings
from headgate.controllers.planning.status import Found
from headgate.controllers.status_writes import COMPONENT, Outcome, write_status
from headgate.planning.settings_map import PrometheusSettings
from headgate.planning.variants import LONGEST_NAME

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once."""
_SOON_S, _AGAIN_S = 0.5, 5.0
"""After an object had changed meanwhile, and after an error of the API server."""
_EARLY = 0.9
"""A time of the last run is written after this part of a period."""
_WRITERS = 16


class PlanningController:
    """Follows VariantAutoscalings. Pools, workloads and gateways are those that autoscaling follows."""

    def __init__(
        self,
        client: cluster.Client,
        scaling: AutoscalingController,
        namespaces: Sequence[str] = (),
        settings: PlanningSettings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        leadership: cluster.Leadership | None = None,
        prometheus_of: Callable[[PrometheusSettings], Server] = PrometheusLoads,
    ) -> None:
        self._client = client
        self._scaling = scaling
        self._namespaces = tuple(namespaces)
        self._settings = settings or PlanningSettings()
        self._clock = clock
        self._leadership: cluster.Leadership = leadership or cluster.Undisputed()
        self._due = asyncio.Event()
        self._followed = Followed(self._due.set, self._settings)
        self._passes = Passes(scaling.shared, self._settings, lambda: clock().timestamp(), prometheus_of)
        self._acting = Acting(client, scaling.shared, self._settings)
        self._events = cluster.EventRecorder(client, COMPONENT, clock)
        self.figures = Figures(self._leadership.is_held)
        self.is_ready = False
        """Whether all objects are loaded."""
        scaling.shared.followed.variant_touched = self._touched
        scaling.needs_more = self._needs_more

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Run until cancelled; calls `on_ready` once all objects are loaded."""
        informers = self._followed.informers(self._client, self._namespaces)
        async with contextlib.aclosing(self._passes.loads), asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            await asyncio.gather(*(each.wait_known(_PATIENCE_S) for each in informers))
            await self._scaling.loaded.wait()
            tasks.create_task(self._events.run())
            tasks.create_task(self._look())
            tasks.create_task(self._followed.follow_nodes())
            tasks.create_task(self._followed.follow_classes())
            self.is_ready = True
            on_ready()
            while True:
                await self._wait(await self._try_pass())

    def _touched(self, key: api.ObjectKey) -> None:
        if self._followed.has(key):
            self._due.set()

    def _needs_more(self, pool: api.ObjectRef) -> None:
        if self._acting.is_fed_by(pool):
            self._due.set()

    async def _look(self) -> None:
        """Compare loads with those that were planned for."""
        while True:
            await asyncio.sleep(self._settings.look_s)
            try:
                if await self._passes.loads.has_risen():
                    self._due.set()
            except Exception:
                log.exception("loads could not be compared with those that were planned for")

    async def _wait(self, delay_s: float) -> None:
        """Until the next pass is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._due.wait()
        await asyncio.sleep(self._settings.gather_s)
        self._due.clear()

    async def _try_pass(self) -> float:
        """Returns when the next one is due at the latest, in seconds."""
        if not self._leadership.is_held():
            self.figures.keep(())  # those of whoever leads count
        await self._leadership.acquired()
        began = time.perf_counter()
        try:
            configuration, limits = await self._followed.inventory()
            objects = self._followed.variants()
            found = await self._passes.run(objects, configuration, limits)
            self.figures.seconds += time.perf_counter() - began
            if not self._leadership.is_held():
                return _SOON_S  # the plan is that of whoever leads now
            settled = await self._act(objects, found, configuration.period_s)
        except cluster.ApiError as error:
            log.warning("a pass over VariantAutoscalings failed, again in %.0f s: %s", _AGAIN_S, error)
            self.figures.failed_passes += 1
            return _AGAIN_S
        except Exception:
            log.exception("a pass over VariantAutoscalings failed, again in %.0f s", _AGAIN_S)
            self.figures.failed_passes += 1
            return _AGAIN_S
        self.figures.passes += 1
        return configuration.period_s if settled else _SOON_S

    async def _act(
        self, objects: Sequence[api.VariantAutoscaling], found: dict[api.ObjectKey, Found], period_s: float
    ) -> bool:
        """Report all results, and write replicas where that is asked for. Returns whether nothing had
        changed meanwhile. One object that cannot be written holds up no other."""
        self.figures.keep(found)
        await self._acting.leave_others(found)
        await self._acting.shares.write(found.values())
        limit = asyncio.Semaphore(_WRITERS)

        async def act(obj: api.VariantAutoscaling) -> bool:
            async with limit:
                if not self._leadership.is_held():
                    return False
                return await self._act_on(obj, found[obj.metadata.key], period_s)

        results = await asyncio.gather(*map(act, objects), return_exceptions=True)
        failed = [each for each in results if isinstance(each, BaseException)]
        if failed:
            raise failed[0]
        return all(results)

    async def _act_on(self, obj: api.VariantAutoscaling, found: Found, period_s: float) -> bool:
        workload, now = found.workload, self._clock().timestamp()
        if workload is not None:
            other = owners.other_owner(obj, workload)
            if other:
                found = found._replace(owner=other)
            elif not owners.is_owned(obj, workload):
                await owners.own(self._client, obj, workload)
                return False  # the informer will provide the object with its new version
        learning = self._passes.learning
        self.figures.profiles[obj.metadata.key] = dict(learning.parameters(obj, found.variant))
        await learning.keep(self._client, obj, found.variant, now)
        await noting.note(self._client, obj, found)
        found = await self._acting.act(obj, found, now)
        due = status.due(obj, found, now)
        self._show(obj, found, due)
        return await self._write(obj, due, now, period_s)

    def _show(self, obj: api.VariantAutoscaling, found: Found, due: VariantAutoscalingStatus) -> None:
        key, workload = obj.metadata.key, found.workload
        if workload is None:
            self.figures.shown.pop(key, None)
            return
        desired = due.desired_optimized_alloc
        before = self.figures.shown.get(key)
        wanted = desired.num_replicas if desired is not None else None
        accelerator, variant_id = obj.spec.accelerator[:LONGEST_NAME], obj.spec.variant_id[:LONGEST_NAME]
        shown = Figure(accelerator, variant_id, workload.status.replicas or found.current, wanted)
        self.figures.shown[key] = shown
        if before is not None and before.desired is not None and wanted not in (None, before.desired):
            self.figures.count_scaling(key, before.desired, wanted or 0, "optimization")

    async def _write(
        self, obj: api.VariantAutoscaling, due: VariantAutoscalingStatus, now: float, period_s: float
    ) -> bool:
        before = obj.status
        if status.essence(before) == status.essence(due):
            ran_at = status.ran_at(before)
            # A clock that was set back says nothing about when that was.
            if ran_at is None or 0 <= now - ran_at < _EARLY * period_s:
                return True
        outcome = await write_status(self._client, obj, status.written(due))
        if outcome is Outcome.WRITTEN:
            self._tell(obj, due)
        return outcome is not Outcome.OUTDATED

    def _tell(self, obj: api.VariantAutoscaling, due: VariantAutoscalingStatus) -> None:
        """Record Events about conditions that turned, and about other replicas."""
        before = obj.status or VariantAutoscalingStatus()
        for condition in conditions.news(
            api.ObservedStatus(conditions=before.conditions), api.ObservedStatus(conditions=due.conditions)
        ):
            is_well = condition.status == "True"
            kind = cluster.EventType.NORMAL if is_well else cluster.EventType.WARNING
            self._events.record(obj, kind, condition.reason, f"{condition.type}: {condition.message}")
        old, new = before.desired_optimized_alloc, due.desired_optimized_alloc
        if new is not None and (old is None or old.num_replicas != new.num_replicas):
            was = f", before {old.num_replicas}" if old is not None else ""
            told = f"{status.counted(new.num_replicas)} of {new.accelerator} should run{was}"
            self._events.record(obj, cluster.EventType.NORMAL, "ReplicasPlanned", told)
