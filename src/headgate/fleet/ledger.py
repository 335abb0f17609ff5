"""The in-flight ledger: which work this gateway has given to each endpoint and not yet got back.

It is updated inside the pick, before the request is sent, so that a burst of requests spreads instead of
herding onto the endpoint that looked idle a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.fleet.ejection import EjectionPolicy, EndpointHealth
from headgate.routing import Endpoint

DECODE_WORK_TOKENS = 200
"""What a request adds besides its prompt: its share of the decode batch, in tokens of prefill.

A request of unknown length holds a batch slot about as long as a prompt of a few hundred tokens
takes to prefill; the learned estimate of each endpoint replaces this figure.
"""


class EndpointLoad(EndpointHealth):
    """The open account of one endpoint, and its health. Changed only through its methods."""

    __slots__ = ("endpoint", "requests", "started", "work_tokens")

    def __init__(self, endpoint: Endpoint, policy: EjectionPolicy | None = None) -> None:
        super().__init__(policy or EjectionPolicy())
        self.endpoint = endpoint
        self.requests = 0
        self.work_tokens = 0
        self.started = 0

    def start(self, prompt_tokens: int) -> None:
        """Books a request; the same number must be given to `finish` once."""
        self.requests += 1
        self.started += 1
        self.work_tokens += prompt_tokens + DECODE_WORK_TOKENS

    def finish(self, prompt_tokens: int) -> None:
        self.requests -= 1
        self.work_tokens -= prompt_tokens + DECODE_WORK_TOKENS


class Ledger:
    """The loads of all endpoints, by endpoint."""

    def __init__(self, policy: EjectionPolicy | None = None) -> None:
        self._policy = policy or EjectionPolicy()
        self._loads: dict[Endpoint, EndpointLoad] = {}

    def load(self, endpoint: Endpoint) -> EndpointLoad:
        """The account of an endpoint, opened on first use."""
        load = self._loads.get(endpoint)
        if load is None:
            load = self._loads[endpoint] = EndpointLoad(endpoint, self._policy)
        return load

    def change(self, policy: EjectionPolicy) -> None:
        """Failures are judged by another policy from now on; ejections under way stay."""
        self._policy = policy
        for load in self._loads.values():
            load.policy = policy

    def keep(self, endpoints: Iterable[Endpoint]) -> list[EndpointLoad]:
        """Closes the accounts of all other endpoints, but for those with requests, and returns them.

        An endpoint that comes back while its requests still run must not look idle.
        """
        wanted = set(endpoints)
        closed = [e for endpoint, e in self._loads.items() if endpoint not in wanted and not e.requests]
        for load in closed:
            del self._loads[load.endpoint]
        return closed

    def statistics(self) -> dict[str, int]:
        return {
            "endpoints": len(self._loads),
            "requests": sum(load.requests for load in self._loads.values()),
            "work_tokens": sum(load.work_tokens for load in self._loads.values()),
        }

    def loads(self) -> list[EndpointLoad]:
        return list(self._loads.values())

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        for load in self._loads.values():
            assert load.requests >= 0
            assert load.work_tokens >= load.requests * DECODE_WORK_TOKENS
            assert load.requests > 0 or load.work_tokens == 0
