"""The models and adapters that an endpoint serves, as its responses show."""

from __future__ import annotations

from typing import Final, TypeAlias

LACKING_S: Final = 60.0
"""An endpoint that lacks an adapter is tried again after this time: it may have been loaded since."""
MAX_LACKING: Final = 1024
ModelPath: TypeAlias = tuple[str, str]
"""What a 404 may depend on: the model and the path of a request."""
MAX_ADAPTERS: Final = 64
"""Adapters assumed to be loaded at most, if the engine does not report its limit."""


class ServedModels:
    """What one endpoint has loaded, and what it responded 404 for."""

    __slots__ = ("lacking", "last", "unserved", "used_adapters")

    def __init__(self) -> None:
        self.used_adapters: dict[str, None] = {}
        """Adapters assumed to be loaded because requests used them, least recently used first."""
        self.lacking: dict[str, tuple[float, frozenset[str] | None]] = {}
        """Adapters for which it responded 404: when that expires, and its list of models at the time."""
        self.last: ModelPath | None = None
        """The model and path that it last served."""
        self.unserved: dict[ModelPath, float] = {}
        """Requests for which it responded 404 while it serves others, and when that expires."""

    def use_adapter(self, adapter: str, limit: int | None) -> None:
        """Record that a request for an adapter is on its way: the engine loads it, and evicts the least
        recently used one if all `limit` slots are taken. None if the limit is unknown."""
        used = self.used_adapters
        used.pop(adapter, None)
        used[adapter] = None
        while len(used) > max(MAX_ADAPTERS if limit is None else limit, 1):
            del used[next(iter(used))]

    def served(self, asked: ModelPath) -> None:
        """Record a response with a good status."""
        self.last = asked

    def served_adapter(self, adapter: str) -> None:
        """Clear a 404 for an adapter, as a request for it was served."""
        if self.lacking:
            self.lacking.pop(adapter, None)

    def lacks(self, adapter: str, listed: frozenset[str] | None, now: float) -> None:
        """Record a 404 for an adapter, while the engine lists these models. A later list of models, a
        response, or time clears it."""
        self.used_adapters.pop(adapter, None)
        if len(self.lacking) >= MAX_LACKING:
            self.lacking.clear()
        self.lacking[adapter] = now + LACKING_S, listed

    def not_found(self, asked: ModelPath, now: float) -> bool:
        """Record a 404 for what another endpoint serves. Returns whether this one is healthy otherwise: it
        serves other requests, so that it gets none of this kind for a while."""
        if self.last is None or self.last == asked:
            return False
        if len(self.unserved) >= MAX_LACKING:
            self.unserved.clear()
        self.unserved[asked] = now + LACKING_S
        return True

    def listed(self, models: frozenset[str] | None) -> None:
        """Clear recorded 404s for adapters that a newer list of models contains."""
        if self.lacking and models is not None:
            self.lacking = {
                adapter: (until, before)
                for adapter, (until, before) in self.lacking.items()
                if models is before or adapter not in models
            }

    def sweep(self, now: float) -> None:
        """Drop expired records."""
        if self.lacking:
            self.lacking = {name: known for name, known in self.lacking.items() if known[0] > now}
        if self.unserved:
            self.unserved = {asked: until for asked, until in self.unserved.items() if until > now}

    def clear(self) -> None:
        """Record that the engine has restarted: nothing is loaded."""
        self.used_adapters.clear()
        self.lacking.clear()
        self.last = None
        self.unserved.clear()
