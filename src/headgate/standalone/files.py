"""Follows files of objects: what they define is in effect as soon as they are saved, if it is valid.

Each file is taken or left as a whole. Of one with an error, the objects of its last valid version stay.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.api.stored_object import StoredObject
from headgate.standalone.stored import stored

log = logging.getLogger(__name__)

POLL_S: Final = 0.2
"""A file is read once it is the same at two polls, so that it is not read while it is written."""
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_FILES: Final = 1000
MAX_BYTES: Final = 24 * 1024 * 1024
"""Of all objects together: workers get them in one message."""
MAX_ERRORS: Final = 100
"""Shown of one file."""

_State = tuple[int, int, int, int]


class FileRead(msgspec.Struct, frozen=True):
    """What one file defines. `objects` are as an API server would have stored them."""

    objects: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[str, ...] = ()
    """Each with file, line, object, field path, value and fix."""
    warnings: tuple[str, ...] = ()


Read = Callable[[Sequence[str]], Mapping[str, FileRead]]
"""Reads and validates files together. Of two that define one object, the later one has an error."""


class _Kept(msgspec.Struct, frozen=True):
    """The version of a file that is in effect."""

    objects: tuple[StoredObject, ...]
    loaded_at: float
    """Seconds since the epoch."""


class FollowedFiles:
    """Files and directories; `changed` is called when other objects are in effect."""

    def __init__(self, paths: Sequence[str], read: Read, changed: Callable[[], None]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._changed = changed
        self._seen: dict[str, _State] = {}
        """The files as they were read."""
        self._kept: dict[str, _Kept] = {}
        self.errors: dict[str, tuple[str, ...]] = {}
        """Why the present version of a file is not in effect."""

    def objects(self) -> list[StoredObject]:
        """All objects in effect."""
        return [each for path in sorted(self._kept) for each in self._kept[path].objects]

    def change(self, paths: Sequence[str]) -> None:
        """Follow other paths."""
        self._paths = tuple(paths)

    # -- following

    def found(self) -> tuple[list[str], dict[str, str]]:
        """The present files, and what is wrong with the paths."""
        found, errors = self._look()
        return sorted(found), errors

    def load(self) -> None:
        """Read all files now, as at the start."""
        found, errors = self._look()
        self._take(found, errors, self._read(self._in_order(found)))

    async def run(self) -> None:
        """Follow until cancelled."""
        before: dict[str, _State] | None = None
        while True:
            await asyncio.sleep(POLL_S)
            try:
                now, errors = self._look()
                is_stable, before = now == before, now
                if is_stable and (now != self._seen or self._has_other(errors)):
                    read = await asyncio.to_thread(self._read, self._in_order(now))
                    self._take(now, errors, read)
                    self._changed()
            except Exception:  # a bug here must not end the gateway, nor what is served already
                log.exception("reading the objects of %s", ", ".join(self._paths))

    def _has_other(self, errors: Mapping[str, str]) -> bool:
        """Whether paths themselves are missing, or are there again."""
        return any(self.errors.get(path, ("",))[0] != error for path, error in errors.items()) or any(
            path in self._paths and path not in errors and path not in self._seen for path in self.errors
        )

    def _look(self) -> tuple[dict[str, _State], dict[str, str]]:
        """The present files with their states, and what is wrong with the paths themselves. The state also
        changes if a symbolic link is moved, as Kubernetes does to update ConfigMaps."""
        found: dict[str, _State] = {}
        errors: dict[str, str] = {}
        for path in self._paths:
            try:
                for file in _files(path):
                    status = os.stat(file)
                    found[file] = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
                    if len(found) > MAX_FILES:
                        raise OSError(None, f"has more than {MAX_FILES} files of objects")
            except FileNotFoundError:
                if Path(path).suffix in SUFFIXES and path in self._seen:
                    continue  # a file that was removed: so are its objects
                errors[path] = f"{path}: there is no such file or directory"
            except OSError as error:
                errors[path] = f"{path}: {error.strerror or error}"
        return found, errors

    def _in_order(self, found: Mapping[str, _State]) -> list[str]:
        """Files that changed come last, so that of two that define one object, they have the error."""
        return sorted(
            found, key=lambda file: (file not in self._kept or self._seen.get(file) != found[file], file)
        )

    def _take(
        self, found: dict[str, _State], errors: Mapping[str, str], read: Mapping[str, FileRead]
    ) -> None:
        """Put valid versions into effect."""
        past, self._kept = self._kept, self._still(found, errors)
        wrong: dict[str, tuple[str, ...]] = {path: (error,) for path, error in errors.items()}
        owners = {each.place: file for file, kept in self._kept.items() for each in kept.objects}
        for file in self._in_order(found):
            each = read.get(file, FileRead())
            if each.errors:
                wrong[file] = each.errors
                continue
            objects = tuple(stored(obj) for obj in each.objects)
            clash = next((o for o in objects if owners.get(o.place, file) != file), None)
            if clash is not None:
                other = owners[clash.place]
                wrong[file] = (
                    f"{file}: {clash.namespace}/{clash.name} is also defined in {other}: remove one",
                )
                continue
            size = sum(len(o.body) for o in objects) + sum(
                len(o.body) for path, kept in self._kept.items() if path != file for o in kept.objects
            )
            if size > MAX_BYTES:
                wrong[file] = (f"{file}: all objects together have more than {MAX_BYTES} bytes",)
                continue
            before = self._kept.get(file)
            is_same = before is not None and before.objects == objects
            self._kept[file] = before if is_same and before is not None else _Kept(objects, time.time())
            owners |= {o.place: file for o in objects}
            if not is_same:
                self._log_warnings(each)
        self._tell(past, wrong)
        self._seen = found

    def _still(self, found: Mapping[str, _State], errors: Mapping[str, str]) -> dict[str, _Kept]:
        """What stays in effect unless a new version replaces it. If a path itself is missing, its files do:
        a volume that is not mounted is no order to serve nothing."""
        return {
            file: kept
            for file, kept in self._kept.items()
            if file in found or any(file == path or Path(path) in Path(file).parents for path in errors)
        }

    def _log_warnings(self, read: FileRead) -> None:
        for warning in read.warnings[:MAX_ERRORS]:
            log.warning("%s", warning)

    def _tell(self, past: Mapping[str, _Kept], wrong: dict[str, tuple[str, ...]]) -> None:
        for path, errors in wrong.items():
            if self.errors.get(path) != errors:
                stays = "; its last valid version stays in effect" if path in past else ""
                for error in errors[:MAX_ERRORS]:
                    log.error("not in effect%s: %s", stays, error)
        for file in past.keys() - self._kept.keys():
            log.info("%s is gone, and with it its objects: %d", file, len(past[file].objects))
        for file, kept in self._kept.items():
            if past.get(file) != kept:
                log.info("%s: objects in effect: %d", file, len(kept.objects))
        self.errors = wrong

    def shown(self) -> list[dict[str, Any]]:
        """For the debug page."""
        return [
            {
                "path": path,
                "objects": len(self._kept[path].objects) if path in self._kept else 0,
                "loaded_at": round(self._kept[path].loaded_at, 3) if path in self._kept else None,
                "errors": list(self.errors.get(path, ())[:MAX_ERRORS]),
            }
            for path in sorted(self._kept.keys() | self.errors.keys())
        ]


def _files(path: str) -> Iterator[str]:
    """The file itself, or all in a directory but hidden ones, such as those behind the links of a mounted
    ConfigMap. Raises OSError."""
    if not os.path.isdir(path):
        os.stat(path)
        yield path
        return
    for folder, folders, files in os.walk(path, followlinks=False):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                file = os.path.join(folder, name)
                if os.path.isfile(file):  # no link to nothing
                    yield file
