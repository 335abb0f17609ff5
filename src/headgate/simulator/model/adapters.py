"""LoRA adapters in an engine's memory: a few slots, taken by adapters in use."""

from collections import OrderedDict


class AdapterSlots:
    """Which adapters are loaded, and how many running requests use each. The base model, "", needs no slot.

    An unused adapter stays loaded until its slot is needed; the least recently used one is unloaded. Host
    memory keeps `host_places` adapters, including the loaded ones, by the same rule.
    """

    def __init__(self, slots: int, host_places: int = 0) -> None:
        self.slots = slots
        self._host_places = host_places
        self._on_host: OrderedDict[str, None] = OrderedDict()  # least recently used first
        self._users: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self.loads_total = 0

    @property
    def loaded(self) -> tuple[str, ...]:
        return tuple(self._users)

    @property
    def in_use(self) -> frozenset[str]:
        return frozenset(adapter for adapter, users in self._users.items() if users)

    def may_run(self, adapter: str) -> bool:
        """Whether it is loaded, or can be."""
        return (
            not adapter
            or adapter in self._users
            or len(self._users) < self.slots
            or any(not users for users in self._users.values())
        )

    def is_loaded(self, adapter: str) -> bool:
        return not adapter or adapter in self._users

    def spare(self) -> str | None:
        """The least recently used of the loaded adapters that no request uses."""
        return next((adapter for adapter, users in self._users.items() if not users), None)

    def load(self, adapter: str) -> bool:
        """Load an adapter into a free slot; returns whether it was in host memory."""
        assert len(self._users) < self.slots, f"no place for the adapter {adapter}"
        self._users[adapter] = 0
        self.loads_total += 1
        return self._keep_on_host(adapter)

    def _keep_on_host(self, adapter: str) -> bool:
        """Returns whether it was there already."""
        if not self._host_places:
            return False
        known = adapter in self._on_host
        self._on_host[adapter] = None
        if len(self._on_host) > self._host_places:
            del self._on_host[next(each for each in self._on_host if each not in self._users)]
        return known

    def unload(self, adapter: str) -> None:
        assert not self._users[adapter], f"the adapter {adapter} is in use"
        del self._users[adapter]

    def use(self, adapter: str) -> None:
        """A request that uses the adapter starts."""
        if adapter:
            self._users[adapter] += 1
            self._users.move_to_end(adapter)
            if self._host_places:
                self._on_host.move_to_end(adapter)

    def leave(self, adapter: str) -> None:
        """A request that used the adapter ends or is preempted."""
        if adapter:
            assert self._users[adapter], f"nobody uses the adapter {adapter}"
            self._users[adapter] -= 1
