"""Python's garbage collector in a worker."""

from __future__ import annotations

import gc


def spare_what_there_is() -> None:
    """Leaves all objects that there are out of every later collection.

    Those of modules live as long as the process. To look through them took a collection 30 ms and more, for
    which no request went on.
    """
    gc.collect()
    gc.freeze()
