"""What `headgate download` tells: log lines, a status file, and the termination message of its container."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec

from headgate import downloads
from headgate.downloads import manifest, space

_LINE_S = 5.0
_STATUS_S = 1.0
_TERMINATION_LOG = "/dev/termination-log"
_MESSAGE_BYTES = 4096
"""As much as Kubernetes keeps."""


@dataclass
class Reports:
    source: str
    name: str
    directory: Path
    status_dir: Path | None
    output: str
    """text or json"""
    _line_at: float = field(default=-_LINE_S, init=False)
    _status_at: float = field(default=-_STATUS_S, init=False)
    _told: tuple[str, bool] = field(default=("", False), init=False)
    """The phase, and whether there is a problem."""

    def start(self) -> None:
        if self.status_dir is not None:
            try:
                self.status_dir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise click.ClickException(f"--status-dir {self.status_dir}: {error.strerror}") from error

    def show(self, now: downloads.Snapshot) -> None:
        """Called several times per second: writes a line every 5 s and the status file every second,
        and both when the phase is new, or a problem comes or goes."""
        at, told = time.monotonic(), (now.phase, bool(now.problem))
        is_new, self._told = told != self._told, told
        if is_new or at - self._line_at >= _LINE_S:
            self._line_at = at
            self._write_line(now)
        if is_new or at - self._status_at >= _STATUS_S:
            self._status_at = at
            self._write_status(msgspec.to_builtins(now))

    def fail(self, error: downloads.DownloadError) -> None:
        told = {"reason": error.reason.label, "message": str(error)}
        if self.output == "json":
            click.echo(json.dumps({"phase": "Failed", "source": self.source, "error": told}))
        else:
            click.echo(f"Error: {error}", err=True)
        self._write_status({"phase": "Failed", "error": told})
        log = Path(os.environ.get("TERMINATION_LOG") or _TERMINATION_LOG)
        with contextlib.suppress(OSError):
            if log.exists():
                log.write_bytes(f"{error.reason.label}: {error}".encode(errors="replace")[:_MESSAGE_BYTES])

    def _write_line(self, now: downloads.Snapshot) -> None:
        if self.output == "json":
            click.echo(json.dumps({"source": self.source, **msgspec.to_builtins(now)}))
        else:
            click.echo(_line(self.source, self.directory, now))

    def _write_status(self, status: dict[str, Any]) -> None:
        """A volume that is full must not end the download: the next status may fit."""
        if self.status_dir is None:
            return
        content = {
            "name": self.name,
            "source": self.source,
            "directory": str(self.directory),
            "updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **status,
        }
        with contextlib.suppress(OSError):
            manifest.write_json(self.status_dir / f"{self.name}.json", content)


def _line(source: str, directory: Path, now: downloads.Snapshot) -> str:
    match now.phase:
        case "Waiting":
            return f"Waiting for {now.waiting_for}, which downloads {source}"
        case "Listing":
            return f"Listing {source}" + _problem(now)
        case "Complete":
            return f"Complete: {now.files_total} files, {space.shown(now.bytes_total)}, in {directory}"
    line = (
        f"Downloading {source}: {now.percent:.0f} %, "
        f"{space.shown(now.bytes_done)} of {space.shown(now.bytes_total)}, "
        f"{now.files_done} of {now.files_total} files, {space.shown(now.bytes_per_s)}/s"
    )
    if now.bytes_per_s > 0:
        line += f", {(now.bytes_total - now.bytes_done) / now.bytes_per_s:.0f} s left"
    return line + _problem(now)


def _problem(now: downloads.Snapshot) -> str:
    return (f", {now.retries} retries" if now.retries else "") + (f"; {now.problem}" if now.problem else "")
