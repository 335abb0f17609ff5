"""Assigns a request to a flow of its queue, and bounds the number of flows.

Fairness divides a pool among flows, so whoever can invent flow names can take the pool. A name from a trusted
client, or one with a weight, is a flow of its own. Nobody checks API keys: per client address, a few of those
with queued requests are flows, and the rest share the flow of the address. If fairness depends on past usage,
none is, as a new key would always be first. Beyond a number of flows, new ones are shared.
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
    """The flows of one queue. Call `increment` and `decrement` for each queued request."""

    def __init__(self, settings: FlowSettings) -> None:
        self.settings = settings
        self._waiting: Counter[str] = Counter()
        self._addresses: dict[str, str] = {}
        """Client addresses, by queued flow of an API key."""
        self._keys: Counter[str] = Counter()
        """The number of those flows per address."""

    def of(self, asked: QueueHints) -> str:
        """The flow of a request that arrives now."""
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
        """A request is queued in this flow, which `of` returned for it."""
        if name not in self._waiting and name == asked.flow and asked.address:
            self._addresses[name] = asked.address
            self._keys[asked.address] += 1
        self._waiting[name] += 1

    def decrement(self, name: str) -> None:
        """A request of this flow is no longer queued."""
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
        """Check the invariants; for tests."""
        assert all(count > 0 for count in self._waiting.values())
        assert self._addresses.keys() <= self._waiting.keys()
        assert self._keys == Counter(self._addresses.values())
        assert all(count <= KEYS_OF_ADDRESS for count in self._keys.values())
        named = [name for name in self._waiting if name not in self.settings.weights]
        assert len(named) <= MAX_FLOWS + SHARED_FLOWS + 1
