"""What a source consists of: its files, checked before anything is written.

Names and sizes come from a server, so they are hostile until checked here.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from headgate.downloads.errors import DownloadError, Reason

OWN_DIRECTORY = ".headgate"
"""In a cache: locks and partial downloads. In a download: its manifest. No source may have files in it."""
MAX_FILES = 100_000
MAX_BYTES = 64 << 40
_MAX_PATH_BYTES = 1024
_MAX_NAME_BYTES = 240
_MAX_DEPTH = 32


@dataclass(frozen=True)
class RemoteFile:
    path: str
    """Relative to the directory of the download, with slashes."""
    size: int
    etag: str = ""
    """Changes with the content; empty if the source has no such thing."""
    sha256: str = ""
    git_sha1: str = ""
    """SHA-1 of the content as a git blob."""
    md5: str = ""
    md5_part_bytes: int = 0
    """If positive, `md5` is the MD5 hash of those of all parts of this size, with their number: "01ef-7"."""


@dataclass(frozen=True)
class Listing:
    files: tuple[RemoteFile, ...]
    revision: str = ""
    """The commit of the files; empty if the source has no revisions."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Patterns:
    """Globs of the files to download, as the hub's clients read them: `*` also matches slashes."""

    include: Sequence[str] = ()
    """Empty: all."""
    exclude: Sequence[str] = ()

    def select(self, path: str) -> bool:
        included = not self.include or _matches(path, self.include)
        return included and not _matches(path, self.exclude)


def _matches(path: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, f"{glob}*" if glob.endswith("/") else glob) for glob in globs)


def checked(source: str, files: Iterable[RemoteFile], patterns: Patterns) -> tuple[RemoteFile, ...]:
    """Return the files to download, sorted by path; raise DownloadError if any of them is not acceptable."""
    selected: dict[str, RemoteFile] = {}
    total = seen = 0
    for file in files:
        seen += 1
        if seen > MAX_FILES:
            raise _refusal(source, f"it has more than {MAX_FILES:,} files")
        if not patterns.select(file.path):
            continue
        if problem := _problem(file):
            raise _refusal(source, f"its file {_shown(file.path)} {problem}")
        if file.path in selected:
            raise _refusal(source, f"it lists the file {_shown(file.path)} twice")
        selected[file.path] = file
        total += file.size
        if total > MAX_BYTES:
            raise _refusal(source, f"its files have more than {MAX_BYTES >> 40} TiB")
    for path in selected:
        for parent in PurePosixPath(path).parents:
            if str(parent) in selected:
                raise _refusal(source, f"{_shown(str(parent))} is both a file and a directory")
    if not selected:
        which = " that match the patterns" if patterns.include or patterns.exclude else ""
        raise DownloadError(Reason.NO_FILES, f"{source} has no files{which}")
    return tuple(selected[path] for path in sorted(selected))


def _problem(file: RemoteFile) -> str:
    names = file.path.split("/")
    if len(file.path.encode(errors="replace")) > _MAX_PATH_BYTES or len(names) > _MAX_DEPTH:
        return f"has a path that is too long (limits: {_MAX_PATH_BYTES} bytes, {_MAX_DEPTH} levels)"
    if any(name in ("", ".", "..") for name in names):
        return "would be outside of the target directory, or has an ambiguous path"
    if any(not each.isprintable() or each == "\\" for each in file.path):
        return "has control characters or backslashes in its name"
    if any(len(name.encode()) > _MAX_NAME_BYTES for name in names):
        return f"has a name of more than {_MAX_NAME_BYTES} bytes"
    if names[0] == OWN_DIRECTORY:
        return f"is in {OWN_DIRECTORY}, which is reserved for manifests"
    if file.size < 0:
        return f"has the size {file.size}"
    return ""


def _shown(path: str) -> str:
    return ascii(path if len(path) <= 200 else f"{path[:200]}...")


def _refusal(source: str, problem: str) -> DownloadError:
    return DownloadError(
        Reason.REFUSED,
        f"{source} is refused: {problem}; nothing was written. Check the source, or exclude the file",
    )
