"""The progress of downloads, from the files that `headgate download` writes."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headgate.runtime import files

MAX_FILES: Final = 128
MAX_BYTES: Final = 16 * 1024

Text = Annotated[str, Meta(max_length=4096)]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class Problem(msgspec.Struct, frozen=True):
    """Why a download failed."""

    reason: Text = ""
    message: Text = ""


class Download(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a download is; its name is that of the file."""

    name: Text = ""
    source: Text = ""
    directory: Text = ""
    phase: Text = ""
    bytes_done: Count = 0
    bytes_total: Count = 0
    files_done: Count = 0
    files_total: Count = 0
    bytes_per_s: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    retries: Count = 0
    problem: Text = ""
    waiting_for: Text = ""
    error: Problem | None = None
    updated: Text = ""


_decoder = msgspec.json.Decoder(Download)


def read(directory: Path) -> list[Download]:
    """The downloads of a directory by name; files that are not of this form are skipped."""
    return sorted(_read(directory), key=lambda download: download.name)


def _read(directory: Path) -> Iterator[Download]:
    try:
        with os.scandir(directory) as entries:
            names = [each.name for each in itertools.islice(entries, 10 * MAX_FILES)]
    except OSError:
        return
    shown = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    for name in sorted(shown)[:MAX_FILES]:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            found = _decoder.decode(files.read(directory / name, MAX_BYTES))
            yield msgspec.structs.replace(found, name=name.removesuffix(".json"))
