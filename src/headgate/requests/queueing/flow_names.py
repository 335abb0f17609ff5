"""Which flow of a queue a request is of, with a bound on how many flows there are.

Fairness divides a pool among flows, so whoever can make up names of flows can take the pool. A name from a
trusted client, or one with a weight, is a flow of its own. API keys are checked by nobody: of one client
address, a few that wait at a time are flows, and the others share the flow of the address. Where fairness
goes by past usage, none is, as a new key would always be first. Past a number of flows, further ones share.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.flow.queue import FlowSettings
    from headgate.requests.queueing.hints import QueueHints

KEYS_OF_ADDRESS = 16
MAX_FLOWS = 1000
SHARED_FLOWS = 64


class FlowNames:
    """Of one queue. `came` and `went` are told of each request that waits."""

    def __init__(self, settings: FlowSettings) -> None:
        self.settings = settings
        self._waiting: Counter[str] = Counter()
        self._addresses: dict[str, str] = {}
        """Of each flow of an API key that waits."""
        self._keys: Counter[str] = Counter()
        """How many of those each address has."""

    def of(self, asked: QueueHints) -> str:
        """The flow of a request that comes now."""
        name = asked.flow
        settings = self.settings
        if name in self._waiting or not name or name in settings.weights:
            return name
        most_keys = 0 if settings.goes_by_usage else KEYS_OF_ADDRESS
        if asked.address and self._keys[asked.address] >= most_keys:
            name = asked.address
            if name in self._waiting:
                return name
        if len(self._waiting) < MAX_FLOWS:
            return name
        return f"shared-{zlib.crc32(name.encode()) % SHARED_FLOWS}"

    def increment(self, name: str, asked: QueueHints) -> None:
        """A request waits in this flow, which `of` gave it."""
        if name not in self._waiting and name == asked.flow and asked.address:
            self._addresses[name] = asked.address
            self._keys[asked.address] += 1
        self._waiting[name] += 1

    def decrement(self, name: str) -> None:
        """It waits no longer."""
        self._waiting[name] -= 1
        if self._waiting[name]:
            return
        del self._waiting[name]
        address = self._addresses.pop(name, None)
        if address is not None:
            self._keys[address] -= 1
            if not self._keys[address]:
                del self._keys[address]

    def statistics(self) -> dict[str, int]:
        return {"flows": len(self._waiting), "keys": len(self._addresses), "addresses": len(self._keys)}

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        assert all(count > 0 for count in self._waiting.values())
        assert self._addresses.keys() <= self._waiting.keys()
        assert self._keys == Counter(self._addresses.values())
        assert all(count <= KEYS_OF_ADDRESS for count in self._keys.values())
        named = [name for name in self._waiting if name not in self.settings.weights]
        assert len(named) <= MAX_FLOWS + SHARED_FLOWS + 1
