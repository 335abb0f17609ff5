"""The settings in effect: reloaded when their file changes, and kept if the new ones are invalid."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headgate import telemetry
from headgate.gateway import setting_types
from headgate.gateway.settings import GatewaySettings, InvalidSettings, changes

log = logging.getLogger(__name__)

POLL_S = 1.0

_ADDRESSES = ("listen", "metrics", "admin")
"""Sections of the settings."""

Load = Callable[[], GatewaySettings]
"""Reads file, environment and flags. Raises InvalidSettings with all errors."""


class Configuration:
    """The source of the settings, and the result of the last attempt to read them."""

    def __init__(
        self,
        load: Load,
        file: Path | None,
        registry: telemetry.Registry,
        past: GatewaySettings | None = None,
    ) -> None:
        """`past` settings stay in effect if the new ones are invalid; without them, raises
        InvalidSettings."""
        self._load = load
        self.file = file
        self.waiting: dict[str, Any] = {}
        """Changed settings of the file that take effect with the next start or upgrade."""
        self.errors: list[str] = []
        """Why the last attempt was rejected."""
        try:
            self.settings = load()
            """In effect."""
        except InvalidSettings as error:
            if past is None:
                raise
            self.settings = past
            self._refuse(error)
        self.loaded_at = time.time()
        self._signature = self._look()
        self._reloads = telemetry.Counter(
            "headgate_gateway_config_reloads", "Reloads of the configuration file.", ("result",)
        )
        registry.add(
            self._reloads,
            telemetry.Gauge(
                "headgate_gateway_config_valid",
                "Whether the last read of the configuration was valid; if not, the previous one applies.",
                read=lambda: [((), not self.errors)],
            ),
            telemetry.Gauge(
                "headgate_gateway_config_loaded_timestamp_seconds",
                "When the settings in effect were read.",
                read=lambda: [((), self.loaded_at)],
            ),
        )

    def reload(self) -> bool:
        """Read the settings again; return whether any that apply immediately have changed."""
        self._signature = self._look()
        try:
            new = self._load()
        except InvalidSettings as error:
            self._reloads.labels("invalid").value += 1
            self._refuse(error)
            return False
        self.errors = []
        self.loaded_at = time.time()
        self._reloads.labels("valid").value += 1
        return self._take(new)

    def _refuse(self, error: InvalidSettings) -> None:
        for line in error.errors:
            log.error("the new configuration is not used: %s", line)
        self.errors = error.errors

    def keep_addresses(self, past: GatewaySettings) -> None:
        """Keep the past addresses, as the new ones cannot be used."""
        kept = {section: getattr(past, section) for section in _ADDRESSES}
        wanted = self.settings
        self.settings = msgspec.structs.replace(wanted, **kept)
        self.waiting |= {path: value for path, (_, value) in changes(self.settings, wanted).items()}

    def _take(self, new: GatewaySettings) -> bool:
        types = setting_types.settings()
        differing = changes(self.settings, new)
        # Derived values take effect with the settings from which they are computed.
        live = {
            path: value for path, (_, value) in differing.items() if path not in types or types[path].is_live
        }
        self.waiting = {path: value for path, (_, value) in differing.items() if path not in live}
        for path, (old, value) in differing.items():
            if path not in types:
                log.info("configuration: the content of the settings' files has changed")
                continue
            when = "" if path in live else ", with the next start or upgrade (SIGUSR2)"
            log.info("configuration: %s is now %r instead of %r%s", path, value, old, when)
        if not differing:
            log.info("configuration: reloaded without changes")
        self.settings = self.settings.replace(
            **{path.replace(".", "_"): value for path, value in live.items()}
        )
        return bool(live)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Reload whenever the file has changed and then been stable for one interval, until cancelled."""
        seen = self._signature
        while self.file is not None or self.settings.scheduling.config_file is not None:
            await asyncio.sleep(POLL_S)
            before, seen = seen, self._look()
            if seen == before and seen != self._signature and self.reload():
                on_change()

    def _look(self) -> tuple[int, ...]:
        """A signature of the files. It also changes if a symbolic link is moved, as Kubernetes does to update
        ConfigMaps."""
        files = (self.file, self.settings.scheduling.config_file)
        return tuple(each for file in files if file is not None for each in _state_of(file))

    def shown(self) -> dict[str, Any]:
        """For the debug page."""
        return {
            "file": str(self.file) if self.file is not None else None,
            "loaded_at": round(self.loaded_at, 3),
            "errors": self.errors,
            "waiting_for_restart": self.waiting,
        }


def _state_of(file: str | Path) -> tuple[int, ...]:
    """Device, inode, modification time and size of a file; empty if there is no file."""
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
