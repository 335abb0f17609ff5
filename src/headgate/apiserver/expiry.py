"""Events expire an hour after they last occurred, as in Kubernetes; the oldest earlier if there are many.

Kept forever, they would fill the store until nothing can be created any more.
"""

from __future__ import annotations

import asyncio
import datetime
import logging

import msgspec

from headgate.apiserver import builtin
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.objects import Objects
from headgate.apiserver.snapshots import PART_BYTES
from headgate.apiserver.storage import Key, Store, Stored
from headgate.apiserver.targets import Target
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)

EVENT_LIFE_S = 3600.0
SWEEP_S = 60.0
KEPT_TENTHS = 9
"""Tenths of the maximum number of Events that a sweep leaves."""


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""


class _Event(msgspec.Struct, rename="camel"):
    metadata: _Meta
    last_timestamp: str | None = None


_DECODER = msgspec.json.Decoder(_Event)


async def run(objects: Objects) -> None:
    """Sweep once a minute until cancelled."""
    while True:
        try:
            await sweep(objects, datetime.datetime.now(datetime.UTC))
            objects.store.tidy()
        except Exception:
            log.exception("expiring events")  # a disk that is full now may have space in a minute
        await asyncio.sleep(SWEEP_S)


async def sweep(objects: Objects, now: datetime.datetime) -> None:
    """Delete expired Events one at a time, so that requests are served in between."""
    served = objects.registry.by_resource(builtin.EVENT)
    assert served, "Event must be among the built-in definitions"
    before = timestamps.seconds(now.timestamp() - EVENT_LIFE_S)
    known = sorted(await _known(objects.store))
    too_many = len(known) - objects.max_events * KEPT_TENTHS // 10
    for number, (last, key, revision) in enumerate(known):
        if last >= before and number >= too_many:
            break
        stored = objects.store.get(key)
        if stored is not None and stored.revision == revision:
            objects.delete(Target(served, key.namespace, key.name), DeleteOptions())
        await asyncio.sleep(0)


async def _known(store: Store) -> list[tuple[str, Key, int]]:
    """When each Event last occurred, its key and its revision; read in parts, with requests in between."""
    found: list[tuple[str, Key, int]] = []
    after, is_over = ("", ""), False
    while not is_over:
        size, is_over = 0, True
        events = store.select(builtin.EVENT, after=after)
        for event in events:
            found.append((_last(event), event.key, event.revision))
            after = (event.key.namespace, event.key.name)
            if (size := size + len(event.body)) >= PART_BYTES:
                is_over = False
                break
        events.close()
        await asyncio.sleep(0)
    return found


def _last(stored: Stored) -> str:
    """When the event last occurred; RFC 3339 in UTC sorts as text."""
    event = _DECODER.decode(stored.body)
    return max(event.metadata.creation_timestamp, event.last_timestamp or "")
