"""Brings a source into a directory: completely, or not at all.

Files arrive in a work directory beside the target. Once all of them are verified, a manifest is added, and
their directory is renamed to the target. A process that finds the manifest there has nothing to do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from headgate.downloads import lease, manifest, opening, retries, sources, space
from headgate.downloads.errors import ChangedError, DownloadError, Reason
from headgate.downloads.halting import Halt
from headgate.downloads.listing import OWN_DIRECTORY, Listing, Patterns
from headgate.downloads.manifest import Manifest, StoredFile
from headgate.downloads.progress import Progress, Report, Snapshot
from headgate.downloads.remote import Remote
from headgate.downloads.transfer import TRASH, Transfer, WorkDirectory, disk_error

_LISTINGS = 4
"""How often a source may change while it is downloaded."""


@dataclass(frozen=True)
class Options:
    patterns: Patterns = field(default_factory=Patterns)
    connections: int = 8
    backoff: retries.Backoff = field(default_factory=retries.Backoff)
    timing: lease.Timing = field(default_factory=lease.Timing)


def fetch(
    source: str,
    directory: Path,
    environment: Mapping[str, str],
    *,
    options: Options | None = None,
    halt: Halt | None = None,
    report: Report = lambda _: None,
) -> Manifest:
    """Download `source` into `directory`, unless it is there already; return the manifest.

    Credentials and endpoints are taken from `environment`. `halt` ends the download early, and what has
    arrived is kept. Processes that want the same directory wait for each other. Raises DownloadError.
    """
    found = sources.parse(source, environment)
    try:
        return _Fetch(found, directory.absolute(), options or Options(), halt or Halt(), report).run()
    except OSError as error:
        raise disk_error(error) from error


def work_directory(target: Path) -> Path:
    """Where the download of a target is prepared: on the same filesystem, so that it can be renamed."""
    return target.parent / OWN_DIRECTORY / target.name


class _Fetch:
    def __init__(
        self, source: sources.Source, target: Path, options: Options, halt: Halt, report: Report
    ) -> None:
        self._source, self._target = source, target
        self._options, self._halt, self._report = options, halt, report
        self._progress = Progress()

    def run(self) -> Manifest:
        if isinstance(self._source, sources.DirectorySource):
            _check_apart(self._source, self._target)
        if (found := self._present()) is not None:
            return found
        work = work_directory(self._target)
        with lease.held(work, self._halt, self._waiting, self._doing, self._options.timing) as held:
            if (found := self._present()) is not None:
                return found
            self._set_aside(work)
            return self._download(work, held)

    def _present(self) -> Manifest | None:
        """The manifest, if the target is complete; None if it does not exist, is empty, or has lost files.

        Raises DownloadError if it holds something else.
        """
        target = self._target
        if target.is_mount() or target.name == OWN_DIRECTORY:
            raise DownloadError(
                Reason.INVALID_SOURCE, f"{target} cannot be replaced as a whole: name a directory below it"
            )
        found = manifest.read(target)
        if found is None:
            if target.is_symlink() or (
                target.exists() and not (target.is_dir() and not any(target.iterdir()))
            ):
                raise DownloadError(
                    Reason.TARGET_IN_USE,
                    f"{target} exists, but is no complete download: name another directory, or remove it",
                )
            return None
        wanted = self._manifest()
        if msgspec.structs.replace(found, files=[], revision="") != wanted:
            raise DownloadError(
                Reason.TARGET_IN_USE,
                f"{target} holds {_shown(found)}, but {_shown(wanted)} is wanted: "
                "name another directory, or remove it",
            )
        if manifest.missing(target, found):
            return None
        with contextlib.suppress(OSError):  # a volume that is mounted read-only
            os.utime(target / manifest.PATH)
        self._report(Snapshot("Complete", found.size, found.size, len(found.files), len(found.files)))
        return found

    def _set_aside(self, work: Path) -> None:
        """Remove a download that has lost files; engines keep the files that they have open."""
        if manifest.read(self._target) is not None:
            self._target.rename(work / f"{TRASH}{time.time_ns()}")
            WorkDirectory(work).remove()

    def _manifest(self, listing: Listing | None = None, stored: Sequence[StoredFile] = ()) -> Manifest:
        source, patterns = self._source, self._options.patterns
        return Manifest(
            source=str(source),
            files=[*stored],
            endpoint="" if isinstance(source, sources.DirectorySource) else source.endpoint,
            revision=listing.revision if listing else "",
            include=[*patterns.include],
            exclude=[*patterns.exclude],
        )

    def _waiting(self, holder: lease.Holder | None) -> None:
        self._report(Snapshot("Waiting", waiting_for=str(holder or "another process")))

    def _doing(self) -> str:
        now = self._progress.snapshot()
        return (
            f"{space.shown(now.bytes_done)} of {space.shown(now.bytes_total)}"
            if now.bytes_total
            else now.phase
        )

    def _retried(self, problem: str) -> None:
        self._progress.retried(problem)
        self._report(msgspec.structs.replace(self._progress.snapshot(), phase="Listing"))

    def _download(self, path: Path, held: lease.Lease) -> Manifest:
        remote = opening.remote(self._source)
        work = WorkDirectory(path)
        try:
            for attempt in range(1, _LISTINGS + 1):
                self._report(Snapshot("Listing"))
                listing = retries.repeated(
                    f"listing {self._source}",
                    lambda: remote.list(self._options.patterns),
                    self._options.backoff,
                    self._halt,
                    self._retried,
                )
                try:
                    return self._transfer(remote, listing, work, held)
                except ChangedError as error:
                    if attempt == _LISTINGS:
                        raise DownloadError(
                            Reason.CORRUPT,
                            f"{self._source} changes all the time: {error}; use a fixed revision",
                        ) from error
        finally:
            remote.close()
        raise AssertionError

    def _transfer(self, remote: Remote, listing: Listing, work: WorkDirectory, held: lease.Lease) -> Manifest:
        work.remove_others(listing)
        transfer = Transfer(
            remote, listing, work, self._progress, self._halt, held.check, self._options.backoff
        )
        space.require(work.files, transfer.needed_bytes)
        stored = transfer.run(self._options.connections, lambda: self._report(self._progress.snapshot()))
        found = self._manifest(listing, stored)
        held.check()
        self._publish(work, found)
        return found

    def _publish(self, work: WorkDirectory, found: Manifest) -> None:
        (work.files / OWN_DIRECTORY).mkdir(exist_ok=True)
        manifest.write_json(work.files / manifest.PATH, found, durable=True)
        manifest.sync_directory(work.files)
        work.files.rename(self._target)
        manifest.sync_directory(self._target.parent)
        work.remove()
        self._report(self._progress.snapshot().complete())


def _shown(found: Manifest) -> str:
    words = [
        *(f"--include {glob}" for glob in found.include),
        *(f"--exclude {glob}" for glob in found.exclude),
    ]
    where = f" of {found.endpoint}" if found.endpoint else ""
    return f"{found.source}{where}" + (f" ({' '.join(words)})" if words else "")


def _check_apart(source: sources.DirectorySource, target: Path) -> None:
    """Raise DownloadError if one of the directories is inside the other."""
    from_, to = source.path.resolve(), target.resolve()
    if from_.is_relative_to(to) or to.is_relative_to(from_):
        raise DownloadError(
            Reason.INVALID_SOURCE,
            f"{source} cannot be copied to {target}: one is inside the other; name another directory",
        )
