"""What a controller wrote and its informer has not shown yet.

An informer lags behind the server. A controller that counts only what it is shown would make the same Pod
twice; laying its own writes over the informer's objects closes that gap without waiting.
"""

import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from headgate import cluster

K = TypeVar("K", bound=cluster.KubeObject)

FORGET_AFTER_S = 5.0
"""Longer than any informer should lag. An object that came and went unseen is held for real until then."""


class Overlay(Generic[K]):
    """Own writes, each until the informer shows it or a newer state."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[str, tuple[K, float]] = {}
        self._removed: dict[str, float] = {}

    def wrote(self, obj: K) -> None:
        """The object as the server answered to a write."""
        self._written[obj.metadata.uid] = (obj, self._clock() + FORGET_AFTER_S)

    def removed(self, uid: str) -> None:
        """The object was asked to go."""
        self._written.pop(uid, None)
        self._removed[uid] = self._clock() + FORGET_AFTER_S

    def over(self, shown: Iterable[K]) -> list[K]:
        """The informer's objects as they must be by now."""
        now = self._clock()
        objects = {obj.metadata.uid: obj for obj in shown}
        for uid, (obj, expires) in tuple(self._written.items()):
            known = objects.get(uid)
            if expires <= now or (known is not None and known.metadata.generation >= obj.metadata.generation):
                del self._written[uid]
            else:
                objects[uid] = obj
        for uid, expires in tuple(self._removed.items()):
            known = objects.pop(uid, None)
            if known is None or expires <= now:
                del self._removed[uid]
        return list(objects.values())

    @property
    def pending(self) -> int:
        """How many writes the informer has not confirmed."""
        return len(self._written) + len(self._removed)
