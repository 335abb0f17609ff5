"""The in-flight ledger: the work that has been sent to each endpoint and that has not ended, by this gateway
and by others that report theirs.

It is updated within the pick, before the request is sent, so that a burst of requests spreads instead of
herding onto the endpoint that looked idle a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headgate.fleet.booked_prompt import BookedPrompt
from headgate.fleet.ejection import EndpointHealth
from headgate.fleet.ejection_policy import EjectionPolicy
from headgate.fleet.elsewhere import NOTHING, Elsewhere
from headgate.fleet.estimator import Estimator
from headgate.fleet.reading import EngineReading
from headgate.fleet.served_models import ServedModels
from headgate.routing import Endpoint

DECODE_WORK_TOKENS: Final = 200
"""Load of a request besides its prompt: its share of the decode batch, in tokens of prefill.

A request of unknown length holds a batch slot for about as long as the prefill of a few hundred tokens; the
learned estimate of each endpoint replaces this figure.
"""


class EndpointState(EndpointHealth):
    """Account and health of one endpoint. Changed only through methods."""

    __slots__ = (
        "adapters",
        "decoding",
        "elsewhere",
        "endpoint",
        "estimator",
        "labels",
        "models",
        "output_tokens",
        "prefill_tokens",
        "reading",
        "requests",
        "requests_at_reading",
        "started",
        "unseen_tokens",
    )

    def __init__(self, endpoint: Endpoint, policy: EjectionPolicy | None = None) -> None:
        super().__init__(policy or EjectionPolicy())
        self.endpoint = endpoint
        self.labels: Mapping[str, str] = {}
        """Labels of its Pod in the latest snapshot."""
        self.reading: EngineReading | None = None
        """The latest reading of its engine; None if there is none or it is outdated."""
        self.requests_at_reading = 0
        """Its requests in flight at the reading. The difference to `requests` is not in the reading."""
        self.requests = 0
        """Its requests in flight, with those that other gateways report; so are all figures below."""
        self.elsewhere = NOTHING
        """The part of other gateways."""
        self.adapters: dict[str, int] = {}
        """Its requests per adapter, of this gateway; requests without one are not counted."""
        self.models = ServedModels()
        self.decoding = 0
        """Its requests past their first token."""
        self.prefill_tokens = 0
        """Uncached prompt tokens of its requests without a first token."""
        self.unseen_tokens = 0
        """The part of `prefill_tokens` whose responses are not streamed: they may be prefilled already."""
        self.output_tokens = 0
        """Tokens that its requests are expected to generate."""
        self.started = 0
        """Requests that this gateway has sent to it."""
        self.estimator = Estimator()
        """Estimates its queue in seconds, and its prefill rate."""

    def read(self, reading: EngineReading | None) -> None:
        """Apply the engine's latest reading; None if it is unknown now. The same reading again changes
        nothing."""
        if reading is not self.reading:
            self.reading = reading
            if reading is not None:
                self.models.listed(reading.models)
            self.requests_at_reading = self.requests
            self.estimator.read(reading, self.requests)

    @property
    def own_requests(self) -> int:
        """Its requests in flight that this gateway has sent."""
        return self.requests - self.elsewhere.requests

    def report(self, elsewhere: Elsewhere, now: float) -> None:
        """Apply the latest sums of what other gateways report."""
        before, self.elsewhere = self.elsewhere, elsewhere
        self.requests += elsewhere.requests - before.requests
        self.decoding += elsewhere.begun - before.begun
        self.prefill_tokens += elsewhere.prefill_tokens - before.prefill_tokens
        self.unseen_tokens += elsewhere.unseen_tokens - before.unseen_tokens
        self.output_tokens += elsewhere.output_tokens - before.output_tokens
        self.estimator.report(elsewhere, now)

    def has_adapter(self, adapter: str) -> bool:
        """Whether an adapter is assumed to be loaded, so that a request does not wait for it."""
        if not adapter or adapter in self.models.used_adapters:
            return True
        reading = self.reading
        return reading is not None and (
            adapter in reading.adapters_running or adapter in reading.adapters_waiting
        )

    def use_adapter(self, adapter: str) -> None:
        """Record that a request for an adapter is on its way."""
        self.models.use_adapter(adapter, self.reading.max_adapters if self.reading is not None else None)

    def lacks(self, adapter: str, now: float) -> None:
        """Record a 404 for an adapter."""
        self.models.lacks(adapter, self.reading.models if self.reading is not None else None, now)

    def sweep(self, now: float) -> None:
        """Drop expired records; called about once a second."""
        self.hanging = 0
        self.models.sweep(now)

    @property
    def work_tokens(self) -> int:
        """Its outstanding work, in tokens of prefill."""
        return self.prefill_tokens + DECODE_WORK_TOKENS * self.requests

    def book(
        self,
        uncached_tokens: int,
        output_tokens: int,
        now: float,
        is_streamed: bool = True,
        adapter: str = "",
    ) -> Booking:
        """Book a request that is about to be sent. If its response is not streamed, its first token will not
        be visible."""
        return Booking(self, uncached_tokens, output_tokens, now, is_streamed, adapter)


class Booking(BookedPrompt):
    """One request in the account of an endpoint: created once, ended once."""

    __slots__ = ("_decodes_since", "adapter", "is_over", "load", "output_tokens")

    def __init__(
        self,
        load: EndpointState,
        uncached_tokens: int,
        output_tokens: int,
        now: float,
        is_streamed: bool,
        adapter: str,
    ) -> None:
        super().__init__(uncached_tokens, now, is_streamed)
        self.load = load
        self.output_tokens = output_tokens
        self.adapter = adapter
        self.is_over = False
        self._decodes_since: tuple[float, tuple[float, float]] | None = None
        """When it began to decode, and the estimator's `so_far` at that time; None if its pace says
        nothing."""
        load.requests += 1
        load.started += 1
        load.prefill_tokens += uncached_tokens
        if not is_streamed:
            load.unseen_tokens += uncached_tokens
        load.output_tokens += output_tokens
        if adapter:
            self.loads_adapter = not load.has_adapter(adapter)
            load.use_adapter(adapter)
            load.adapters[adapter] = load.adapters.get(adapter, 0) + 1
        load.estimator.booked(self, now)

    def first_token(self, now: float) -> None:
        """Record that the prompt is prefilled; called once, when the first byte of the response body
        arrives."""
        self.is_prefilled = True
        load = self.load
        self._leave_prefill(load)
        load.decoding += 1
        if self.is_streamed:
            load.estimator.first_token(self, now)
        if self.is_streamed or not self.uncached_tokens:
            self._decodes_since = now, load.estimator.so_far(now)

    def paced(self, response_tokens: int, now: float) -> None:
        """Learn the pace of a streamed response that has just completed with `response_tokens`. A response
        whose prompt was prefilled elsewhere counts too, although its booking shows nothing about prefill."""
        if not self.is_prefilled or response_tokens < 2 or self._decodes_since is None:
            return
        since, (decoding_before_s, prefill_before_s) = self._decodes_since
        if now <= since:
            return
        estimator, steps, lasted_s = self.load.estimator, response_tokens - 1, now - since
        decoding_s, prefill_s = estimator.so_far(now)
        estimator.rates.learn_pace(
            lasted_s / steps,
            (decoding_s - decoding_before_s) / lasted_s,
            (prefill_s - prefill_before_s) / steps,
        )

    def end(self, now: float, response_tokens: int | None = None) -> None:
        """Remove the request from the account, whatever its outcome. `response_tokens`: those of a response
        served to its end, if known."""
        self.is_over = True
        load = self.load
        load.requests -= 1
        load.output_tokens -= self.output_tokens
        if self.adapter:
            self._leave_adapter(load.adapters)
        if self.is_prefilled:
            load.decoding -= 1
        else:
            self._leave_prefill(load)
        load.estimator.ended(self, now, response_tokens)

    def _leave_prefill(self, load: EndpointState) -> None:
        load.prefill_tokens -= self.uncached_tokens
        if not self.is_streamed:
            load.unseen_tokens -= self.uncached_tokens

    def _leave_adapter(self, adapters: dict[str, int]) -> None:
        left = adapters[self.adapter] - 1
        if left:
            adapters[self.adapter] = left
        else:
            del adapters[self.adapter]


class Ledger:
    """The states of all endpoints, by endpoint."""

    def __init__(self, policy: EjectionPolicy | None = None) -> None:
        self._policy = policy or EjectionPolicy()
        self._loads: dict[Endpoint, EndpointState] = {}

    def load(self, endpoint: Endpoint) -> EndpointState:
        """The state of an endpoint, created on first use."""
        load = self._loads.get(endpoint)
        if load is None:
            load = self._loads[endpoint] = EndpointState(endpoint, self._policy)
        return load

    def known(self, endpoint: Endpoint) -> EndpointState | None:
        """The state of an endpoint, if there is one."""
        return self._loads.get(endpoint)

    def change(self, policy: EjectionPolicy) -> None:
        """Apply another ejection policy from now on; current ejections stay."""
        self._policy = policy
        for load in self._loads.values():
            load.policy = policy

    def keep(self, endpoints: Iterable[Endpoint]) -> list[EndpointState]:
        """Drop and return the states of all other endpoints, except those with requests in flight.

        An endpoint that comes back while its requests still run must not look idle.
        """
        others = self._loads.keys() - set(endpoints)
        closed = [self._loads[endpoint] for endpoint in others if not self._loads[endpoint].own_requests]
        for load in closed:
            del self._loads[load.endpoint]
        return closed

    def statistics(self) -> dict[str, int]:
        return {
            "endpoints": len(self._loads),
            "requests": sum(load.requests for load in self._loads.values()),
            "work_tokens": sum(load.work_tokens for load in self._loads.values()),
        }

    def loads(self) -> list[EndpointState]:
        return list(self._loads.values())

    def validate(self) -> None:
        """Check the invariants; for tests."""
        for load in self._loads.values():
            assert load.own_requests >= 0
            assert 0 <= load.decoding <= load.requests
            assert 0 <= load.unseen_tokens <= load.prefill_tokens
            assert load.output_tokens >= 0
            assert sum(load.adapters.values()) <= load.requests
            assert load.requests > 0 or load.work_tokens == load.output_tokens == 0
