"""Keeps the snapshot of a process up to date with the objects of the API server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate import routing
    from headgate.api import ObjectRef
    from headgate.dataplane.followed import FollowedObjects
    from headgate.dataplane.records.recorder import Recorder
    from headgate.requests.data_plane import DataPlane

log = logging.getLogger(__name__)

TRANSLATION_SHARE = 0.1
"""Of one core: the most that following object changes may use, however many there are."""
LONGEST_PAUSE_S = 1.0
"""Between two translations, each of which may combine many changes."""


class Follower(Protocol):
    """The process that uses the snapshots."""

    @property
    def plane(self) -> DataPlane: ...
    @property
    def recorder(self) -> Recorder: ...
    def use(self, snapshot: routing.Snapshot, step: routing.Step | None = None) -> None: ...


async def follow(
    objects: FollowedObjects, changed: asyncio.Event, follower: Follower, on_ready: Callable[[], None]
) -> None:
    """Translate the objects whenever they have changed, until cancelled. They have been loaded before."""
    failed: dict[ObjectRef, Exception] = {}
    while True:
        # Changes that arrive together cause one translation: the event is cleared before it begins.
        changed.clear()
        began_s = time.thread_time()
        try:
            follower.use(objects.translated(), objects.translator.step)
        except Exception:
            if not follower.plane.is_ready:
                raise
            # A bug triggered by some object: other objects, and requests, must not suffer from it.
            follower.recorder.translations_failed.labels().value += 1
            log.exception("the objects cannot be applied: requests continue with the previous ones")
        failed = _note_failures(follower, failed, objects.translator.failed)
        if not follower.plane.is_ready:
            follower.plane.is_ready = True
            on_ready()
        # However fast objects change, leave the rest of the core to requests.
        took_s = time.thread_time() - began_s
        await asyncio.sleep(min(took_s * (1 / TRANSLATION_SHARE - 1), LONGEST_PAUSE_S))
        await changed.wait()


def _note_failures(
    follower: Follower, before: dict[ObjectRef, Exception], failed: dict[ObjectRef, Exception]
) -> dict[ObjectRef, Exception]:
    """Log the objects that could not be translated and are not in `before`."""
    for ref in failed.keys() - before.keys():
        follower.recorder.translations_failed.labels().value += 1
        log.error("%s cannot be applied: its previous version stays in effect", ref, exc_info=failed[ref])
    return dict(failed)
