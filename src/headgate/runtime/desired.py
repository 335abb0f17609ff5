"""Which adapters the engine should have: the set that a controller sends, kept in a file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headgate.runtime import files

MAX_ADAPTERS: Final = 1000
"""As many as a backend of a Model may have."""
MAX_FILE_BYTES: Final = 8 << 20

Name = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[^\s\x00-\x1f\x7f]+\Z")]
Source = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[^\x00-\x1f\x7f]+\Z")]

log = logging.getLogger(__name__)


class Adapter(msgspec.Struct, frozen=True, omit_defaults=True):
    """An adapter that the engine should have."""

    name: Name
    source: Source
    directory: Annotated[str, Meta(max_length=4096)] = ""
    """Where it is, or is downloaded to; empty for the usual place."""
    is_present: bool = False
    """Whether it is in `directory` without a download."""


class Desired(msgspec.Struct, frozen=True):
    """The content of the file."""

    adapters: Annotated[tuple[Adapter, ...], Meta(max_length=MAX_ADAPTERS)] = ()
    leaving: Annotated[tuple[str, ...], Meta(max_length=10 * MAX_ADAPTERS)] = ()
    """Names of former adapters that the engine may still have."""


_decoder = msgspec.json.Decoder(Desired)


class DesiredFile:
    """The file; a sidecar that starts again goes on with it."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the state directory, whose own files are those of downloads."""
        self._path = directory / "runtime" / "adapters.json"

    def exists(self) -> bool:
        """Whether a set was ever sent."""
        return self._path.exists()

    def read(self) -> Desired:
        """An unreadable file is as none: the controller sends the set again."""
        try:
            return _decoder.decode(files.read(self._path, MAX_FILE_BYTES))
        except FileNotFoundError:
            return Desired()
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s is ignored: %s", self._path, error)
            return Desired()

    def write(self, adapters: Sequence[Adapter], leaving: Sequence[str]) -> None:
        """Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(self._path, msgspec.json.encode(Desired(tuple(adapters), tuple(leaving))))
