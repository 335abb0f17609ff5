"""Queues before a pool whose room is told, and requests to fill them with."""

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.flow.queue import FlowQueue, FlowSettings, Waiting

sys.path.insert(0, str(Path(__file__).parent / "driver"))

from flow_pools import Room


@pytest.fixture
def room() -> Room:
    """A pool that is full."""
    return Room()


@pytest.fixture
def queue_of(room) -> Callable[..., FlowQueue]:
    """Makes queues before `room`, by the fields of their settings."""

    def make(**settings: object) -> FlowQueue:
        return FlowQueue(FlowSettings(**settings), room, random.Random(1))

    return make


@pytest.fixture
def wait() -> Callable[..., Waiting]:
    """Makes requests: who, and what by keyword; they live for 60 s."""

    def make(owner: object = None, **fields: object) -> Waiting:
        known = {"flow": "", "priority": 0, "work": 100, "size": 10, "arrived": 0.0, **fields}
        return Waiting(owner, **{"deadline": known["arrived"] + 60.0, **known})

    return make


@pytest.fixture
def drain(room) -> Callable[..., list[object]]:
    """Makes room for so many, and says whose requests went."""

    def make(queue: FlowQueue, count: float = math.inf, now: float = 0.0) -> list[object]:
        room.slots = count
        owners = []
        while (waiting := queue.next(now)) is not None:
            owners.append(waiting.owner)
        room.slots = 0
        queue.validate()
        return owners

    return make
