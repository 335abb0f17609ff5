"""Runs Models: makes their objects, keeps them as they should be, and reports how they stand.

Nothing is polled: a Model is reconciled when it, one of its objects or one of its Pods changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate import api, cluster
from headgate.api.kthena_registry import ModelStatus
from headgate.controllers.model import duties, names, status, tokens
from headgate.controllers.model.applying import Applier, PredecessorError, TakenError
from headgate.controllers.model.desired import Desired, desired_of, serves
from headgate.controllers.model.events import FailuresBesides, tell_turns
from headgate.controllers.model.following import Followed
from headgate.controllers.model.observed import Known
from headgate.controllers.model.settings import ModelSettings
from headgate.controllers.model.sidecar_loop import SidecarLoop
from headgate.controllers.model.status import BackendState
from headgate.controllers.status_writes import COMPONENT, Outcome, write_status
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)

GATHER_S = 0.1
"""How long to collect further changes, because they come in bursts."""
ACCESS_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once."""
PREDECESSOR_S = 1.0
"""How often to look whether the objects of a former Model of the same name are gone."""
LINGER_S = 5.0
"""How long something that requests went to stays after the routes have changed, which gateways do not learn
at the same time."""
OUTAGE_S = 35.0
"""The same after the API server did not answer: a gateway may ask it again after 30 s only."""
TAKEN_S = 15.0
"""How often to look whether an object that belongs to somebody else is gone."""


@dataclass(frozen=True)
class ModelStatistics:
    reconciled: int
    applied: int
    """Objects that were written."""
    corrected: int
    """Objects that somebody else had changed, and that were put back."""
    deleted: int
    statuses_written: int
    queue: cluster.WorkQueueStatistics
    objects: dict[str, int]
    sidecar_requests: int
    sidecar_failures: int


class ModelController:
    """Follows Models, their objects and their Pods."""

    def __init__(
        self,
        client: cluster.Client,
        namespaces: Sequence[str] = (),
        settings: ModelSettings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        leadership: cluster.Leadership | None = None,
    ) -> None:
        self._client = client
        self._scopes = cluster.scopes(namespaces)
        self._settings = settings or ModelSettings()
        self._clock = clock
        self._leadership = leadership or cluster.Undisputed()
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._applier = Applier(client)
        self._followed = Followed(self._touched, self._gone, self._applier.deleted)
        self._sidecars = SidecarLoop(self._followed.touch)
        self._events = cluster.EventRecorder(client, COMPONENT, clock)
        self._failures = FailuresBesides(self._events)
        self._reconciled = self._statuses = 0
        self.is_ready = False
        """Whether all objects are loaded."""

    async def run(self, workers: int = 4, on_ready: Callable[[], None] = lambda: None) -> None:
        """Run until cancelled; calls `on_ready` once all objects are loaded."""
        informers = self._followed.informers(self._client, self._scopes)
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            # Before that, objects that exist would be taken for missing.
            await asyncio.gather(*(informer.wait_known(ACCESS_PATIENCE_S) for informer in informers))
            tasks.create_task(self._events.run())
            tasks.create_task(self._sidecars.run())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, workers))
            self.is_ready = True
            on_ready()

    def statistics(self) -> ModelStatistics:
        applier = self._applier
        return ModelStatistics(
            self._reconciled,
            applier.writes,
            applier.corrections,
            applier.deletions,
            self._statuses,
            self._queue.statistics(),
            self._followed.statistics(),
            self._sidecars.requests,
            self._sidecars.failures,
        )

    def _touched(self, key: api.ObjectKey) -> None:
        self._queue.add_after(key, GATHER_S)

    def _gone(self, uid: str) -> None:
        self._applier.forget(uid)
        self._sidecars.assign(uid, {})
        self._failures.forget(uid)

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        await self._leadership.acquired()
        model = self._followed.model(key)
        if model is None or model.metadata.deletion_timestamp is not None:
            return None  # its objects go with it
        if not self._leadership.is_held():
            return GATHER_S
        self._reconciled += 1
        try:
            desired, wait_s = await self._bring_about(model)
        except PredecessorError as error:
            await self._write(model, status.waiting(model, str(error), self._now()))
            return PREDECESSOR_S
        except TakenError as error:
            await self._write(model, status.failed(model, str(error), self._now()))
            return TAKEN_S
        except Exception as error:
            if _is_telling(error):
                await self._write(model, status.failed(model, _told(error), self._now()))
            raise
        due, states = self._status_of(model, desired)
        waits = [wait_s, await self._write(model, due)]
        self._failures.tell(model, states)
        return min((each for each in waits if each is not None), default=None)

    async def _bring_about(self, model: api.Model) -> tuple[Desired, float | None]:
        """Make the Model's objects as they should be, and delete those that are not wanted any longer; also
        returns the seconds after which there are more of them to delete."""
        followed = self._followed
        with _writing(f"Secret {names.runtime_secret(model)}"):
            await tokens.ensure(self._client, model, self._secret_of(model))
        desired = desired_of(
            model, self._settings, followed.objects(model), followed.pods(model), followed.scaled(model)
        )
        for child in desired.children.children:
            before = followed.object(model, child.id)
            with _writing(f"{child.kind.resource.kind} {child.name}"):
                is_put_back = await self._applier.apply(model, child.kind, child.manifest, before)
            if is_put_back:
                told = f"{child.kind.resource.kind} {child.name} was changed by somebody else, and put back"
                self._events.record(model, cluster.EventType.NORMAL, "PutBack", told)
        over_s = time.monotonic() - self._client.outage.ended_at
        linger_s = max(LINGER_S - self._applier.routed_s(model.metadata.uid), OUTAGE_S - over_s)
        lingering = [gone for gone in desired.unwanted if linger_s > 0 and serves(gone)]
        for gone in desired.unwanted:
            if gone in lingering:
                continue
            with _writing(f"{gone.resource.kind} {gone.metadata.name}"):
                await self._applier.delete(model, gone)
            told = f"{gone.resource.kind} {gone.metadata.name} is not part of the Model any longer"
            self._events.record(model, cluster.EventType.NORMAL, "Deleted", told)
        named = [f"{each.resource.kind} {each.metadata.name}" for each in lingering]
        return dataclasses.replace(desired, lingering=named), linger_s if lingering else None

    def _status_of(self, model: api.Model, desired: Desired) -> tuple[ModelStatus, list[BackendState]]:
        """Gives the sidecars of the Model's Pods their work, and reports what they said so far."""
        uid, children, loop = model.metadata.uid, desired.children, self._sidecars
        pods = self._followed.pods(model)
        token = tokens.token_of(self._secret_of(model))
        loop.assign(uid, duties.duties_of(model, children, pods, token))
        states = [
            duties.reported(state, children, pods, loop.states, loop.downloads) for state in desired.states
        ]
        going = [f"{name} of a former backend still serves" for name in desired.leaving]
        going += [f"{each} goes in a moment" for each in desired.lingering]
        return status.status_of(model, children, states, going, self._now()), states

    async def _write(self, model: api.Model, due: ModelStatus) -> float | None:
        if model.status == due:
            return None
        outcome = await write_status(self._client, model, status.written(due))
        if outcome is Outcome.WRITTEN:
            self._statuses += 1
            tell_turns(self._events, model, due)
        return GATHER_S if outcome is Outcome.OUTDATED else None

    def _secret_of(self, model: api.Model) -> Known | None:
        key = (api.Secret.resource.plural, names.runtime_secret(model))
        return self._followed.object(model, key)

    def _now(self) -> str:
        return timestamps.seconds(self._clock().timestamp())


def _is_telling(error: Exception) -> bool:
    """Whether a person should know of the error: it is neither an outage nor about a concurrent change."""
    return not isinstance(error, cluster.Unreachable | cluster.Conflict)


@contextlib.contextmanager
def _writing(what: str) -> Iterator[None]:
    """An error of the API server is about this object, which not all of its messages name."""
    try:
        yield
    except cluster.ApiError as error:
        error.add_note(what)
        raise


def _told(error: Exception) -> str:
    if isinstance(error, cluster.ApiError):
        what = ", ".join(getattr(error, "__notes__", ()))
        return f"{what} cannot be written: {error.message}" if what else str(error)
    return f"internal error, which the controller's log has in full: {type(error).__name__}: {error}"
