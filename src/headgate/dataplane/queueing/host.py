"""The interface of the process that its queues belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.dataplane.queueing.metrics import WaitMetrics
    from headgate.dataplane.settings import DataPlaneSettings
    from headgate.requests.data_plane import DataPlane


class Host(Protocol):
    """A process of the data path. Its settings and its clock may be replaced while it runs."""

    @property
    def settings(self) -> DataPlaneSettings: ...
    @property
    def plane(self) -> DataPlane: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def now(self) -> Callable[[], float]: ...
    @property
    def waits(self) -> WaitMetrics: ...
