"""One adapter on its way into the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from headgate.runtime.desired import Adapter

State = Literal["Loading", "Loaded", "Failed"]

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0


class AdapterState(msgspec.Struct, frozen=True):
    """What GET /v1/adapters tells of an adapter."""

    name: str
    source: str
    state: State
    error: str


class Entry:
    """A desired adapter, and how far it is. Times are in seconds of the loop's clock."""

    def __init__(self, adapter: Adapter, directory: Path, *, needs_download: bool) -> None:
        self.adapter = adapter
        self.directory = directory
        self.needs_download = needs_download
        self.is_fetched = not needs_download
        self.state: State = "Loading"
        self.error = ""
        self.retry_at = 0.0
        self.loaded_in = -1
        """The run of the engine into which it was loaded, if it was."""
        self._failures = 0

    def failed(self, error: str, now: float) -> None:
        """Try again later, each time after twice as long."""
        self.state, self.error = "Failed", error
        self.retry_at = now + min(FIRST_RETRY_S * 2.0 ** min(self._failures, 30), LAST_RETRY_S)
        self._failures += 1

    def loaded(self, run: int) -> None:
        self.state, self.error, self.loaded_in = "Loaded", "", run
        self.retry_at, self._failures = 0.0, 0

    def lost(self) -> None:
        """The engine has it no more, or cannot be asked."""
        if self.state == "Loaded":
            self.state = "Loading"

    def picture(self) -> AdapterState:
        return AdapterState(self.adapter.name, self.adapter.source, self.state, self.error)
