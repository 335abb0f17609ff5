"""Why a download failed: one type of error, with a reason that programs read and a message for people."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """The cause of a failed download; its value is the exit code of `headgate download`."""

    INVALID_SOURCE = 20
    """The source or the target directory is not one that can be downloaded or written to."""
    NOT_FOUND = 21
    """No such repository, bucket, prefix or directory."""
    NO_SUCH_REVISION = 22
    NO_FILES = 23
    """The source exists, but has no files, or none that match the patterns."""
    GATED = 24
    """The repository's owner has to grant access first."""
    NO_CREDENTIALS = 25
    WRONG_CREDENTIALS = 26
    NO_SPACE = 27
    UNREACHABLE = 28
    """The endpoint did not respond, or failed again and again."""
    CORRUPT = 29
    """The files that arrived are not those that were announced."""
    REFUSED = 30
    """A listing or a response that no honest server sends: unsafe names, absurd sizes."""
    TARGET_IN_USE = 31
    """The target directory holds something else."""
    LOST_LOCK = 32
    """Another process took over, because this one was stopped or cut off for long."""
    INTERRUPTED = 130

    @property
    def label(self) -> str:
        """As in conditions and status files: NoSuchRevision."""
        return "".join(word.title() for word in self.name.split("_"))


class DownloadError(Exception):
    """A download failed; `str()` has the object, the cause and the fix."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TemporaryError(Exception):
    """A request failed in a way that may pass; it is repeated, not before `after_s` seconds have passed."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class ChangedError(TemporaryError):
    """The source is not what its listing said; it must be listed again."""
