"""Python's garbage collector in a server."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 10_000
"""So many more than have gone begin a collection, instead of 700. Nearly all that the data path makes goes by
itself; what stays for a while are requests that wait, and a burst of thousands had most of its objects looked
through several times, for up to 90 ms at once."""


def spare_what_there_is() -> None:
    """Leaves all objects that there are out of every later collection, and has these begin less often.

    Those of modules live as long as the process. To look through them took a collection 30 ms and more, for
    which no request went on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 10, 10)


@contextmanager
def collector_paused() -> Iterator[None]:
    """For a short piece of synchronous code that decodes much JSON: the switch is the whole process's.

    Each of the thousands of new objects counts towards a collection, and each collection visits all that
    exist: for 10,000 Pods that is nine tenths of the time. Decoded JSON has no cycles to find.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
