"""Repeats requests that failed in a way that may pass, a limited number of times."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from headgate.downloads.errors import ChangedError, DownloadError, Reason, TemporaryError
from headgate.downloads.halting import Halt

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """Exponential delays with full jitter, so that many Pods do not come back at once."""

    attempts: int = 8
    """In a row without progress."""
    first_s: float = 0.5
    longest_s: float = 30.0
    rng: random.Random = field(default_factory=random.Random)

    def delay_s(self, failures: int, after_s: float = 0.0) -> float:
        """Before the next attempt, after this many failures in a row; at least what the server asks for."""
        longest = min(self.longest_s, self.first_s * 2.0 ** (failures - 1))
        return max(longest * self.rng.uniform(0.5, 1.0), min(after_s, 2 * self.longest_s))


def repeated(
    what: str,
    request: Callable[[], T],
    backoff: Backoff,
    halt: Halt,
    retried: Callable[[str], None] = lambda _: None,
) -> T:
    """Return what `request` returns once it succeeds; `what` names it in the error, and `retried` hears the
    problem before each further attempt."""
    failures = 0
    while True:
        halt.check()
        try:
            return halt.unless_set(request)
        except ChangedError:
            raise
        except TemporaryError as error:
            failures += 1
            if failures >= backoff.attempts:
                raise gave_up(what, failures, error) from error
            retried(str(error))
            halt.wait(backoff.delay_s(failures, error.after_s))


def gave_up(what: str, failures: int, error: TemporaryError) -> DownloadError:
    return DownloadError(
        Reason.UNREACHABLE,
        f"{what} failed {failures} times in a row: {error}. Check the endpoint and the network, "
        "then start the download again; it continues where it stopped",
    )
