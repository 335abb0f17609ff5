"""The interface of the process that streams belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import random

    from headgate.dataplane.bodies import BodyMemory
    from headgate.dataplane.large_reader import Reader
    from headgate.dataplane.records.recorder import Recorder
    from headgate.picker.reference_metrics import ReferenceMetrics
    from headgate.picker.settings import Choices
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.destinations import Destination
    from headgate.requests.life import Life


class Call(Protocol):
    """The gRPC call of a stream."""

    def send(self, message: bytes) -> None: ...
    def finish(self, status: int = 0, message: str = "") -> None: ...


class Swept(Protocol):
    """A stream in progress."""

    @property
    def life(self) -> Life | None: ...

    def sweep(self, now: float) -> None:
        """Called about once a second."""


class Host(Protocol):
    """One picker process."""

    streams: set[Swept]
    """Those in progress."""
    bodies: BodyMemory
    large_bodies: Reader
    loop: asyncio.AbstractEventLoop
    rng: random.Random

    @property
    def plane(self) -> DataPlane: ...
    @property
    def now(self) -> Callable[[], float]: ...
    @property
    def choices(self) -> Choices: ...
    @property
    def recorder(self) -> Recorder: ...
    @property
    def reference(self) -> ReferenceMetrics: ...
    @property
    def default_destination(self) -> Destination | None:
        """Where requests go that name no model; None while there is no pool."""
        ...

    def request_id(self) -> bytes:
        """A new id."""
        ...
