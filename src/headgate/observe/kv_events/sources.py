"""All engines that publish KV events: subscriptions, their state, and when it expires."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import ExactIndex, PrefixIndex, kv_events
from headgate.observe.kv_events.applying import PublisherTurns
from headgate.observe.kv_events.subscription import Subscription
from headgate.observe.kv_events.tokens import Body, PromptTokens
from headgate.observe.process import Process

log = logging.getLogger(__name__)

SILENT_S = 60.0
"""An engine that was sent prompts it must store, and reports nothing for so long, is subscribed to again."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One engine to subscribe to. Equal targets need the same subscription."""

    endpoint: routing.Endpoint
    events: routing.KvEvents
    tls: routing.Tls | None


class Source:
    """The reports of one engine."""

    def __init__(
        self,
        target: Target,
        load: fleet.EndpointState,
        process: Process,
        prefixes: PrefixIndex,
        exact: ExactIndex,
        turns: PublisherTurns,
    ) -> None:
        self._turns = turns
        self.target = target
        self.load = load
        self._process = process
        self._prefixes = prefixes
        self._residency = exact.residency
        self.ranks: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._received = 0
        self._expected_since: float | None = None
        self.received_at: float | None = None
        self.is_silent = False
        self._logged_state = ""

    def listen(self) -> None:
        """Subscribe to each rank; also used to start again."""
        self.end()
        events, endpoint = self.target.events, self.target.endpoint
        self.ranks = [
            Subscription(
                endpoint.host,
                events.port + rank,
                events.replay_port + rank if events.replay_port else None,
                lambda event, rank=rank: self._apply(event, rank),  # type: ignore[misc]
                lambda rank=rank: self._clear(rank),  # type: ignore[misc]
                self._changed,
                self._turns,
            )
            for rank in range(events.ranks)
        ]
        self._received = 0
        self._tasks = [self._process.spawn(self._run(rank)) for rank in self.ranks]

    async def _run(self, rank: Subscription) -> None:
        try:
            await rank.run()
        except Exception as error:
            # Our own error with an engine's message: the index goes on without its reports.
            log.exception("listening to %s", self.target.endpoint.name)
            rank.state, rank.problem = "lost", f"cannot be listened to: {error!r}"
            self._changed()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self.ranks = []
        self._residency.end(self.load)

    @property
    def state(self) -> str:
        """Only reports of a `live` engine count."""
        states = {rank.state for rank in self.ranks}
        if self.is_silent:
            return "silent"
        return "live" if states == {"live"} else "lost" if "lost" in states else "connecting"

    @property
    def problem(self) -> str:
        return next((rank.problem for rank in self.ranks if rank.problem), "")

    def counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for rank in self.ranks:
            total.update(rank.counts)
        return total

    def _apply(self, event: kv_events.Event, rank: int) -> bool:
        if isinstance(event, kv_events.Cleared):
            self._prefixes.forget(self.load)
        return self._residency.apply(self.load, event, rank)

    def _clear(self, rank: int) -> bool:
        return self.load in self._residency and self._residency.clear_rank(self.load, rank)

    def _changed(self) -> None:
        received = sum(rank.counts["read"] + rank.counts["repeated"] for rank in self.ranks)
        if received != self._received:
            self._received = received
            self._expected_since = None
            self.received_at = self._process.clock()
            self.is_silent = False
        if any(rank.state == "live" for rank in self.ranks):
            if self.load not in self._residency:
                self._residency.begin(self.load)
            is_complete = all(rank.state == "live" and rank.is_complete for rank in self.ranks)
            self._residency.set_complete(self.load, is_complete and not self.is_silent)
        else:
            self._residency.end(self.load)
        self._log_state()

    def _log_state(self) -> None:
        state = self.state
        if state != self._logged_state:
            self._logged_state = state
            level = logging.INFO if state in ("live", "connecting") else logging.WARNING
            endpoint = self.target.endpoint
            why = f": {self.problem}. What is believed of its cache counts" if level > logging.INFO else ""
            log.log(level, "the KV events of %s (%s) are %s%s", endpoint.name, endpoint.address, state, why)

    def expect_report(self, now: float) -> None:
        """It was sent a prompt of which it must store something."""
        if self._expected_since is None:
            self._expected_since = now

    def is_overdue(self, now: float) -> bool:
        return self._expected_since is not None and now - self._expected_since > SILENT_S

    def resubscribe(self) -> None:
        """Subscribe again; until the engine reports, the index relies on what was sent to it."""
        self.is_silent = True
        self._expected_since = None
        self.listen()
        self._log_state()


class KvEventSources:
    """The sources of one process. Does nothing until started."""

    def __init__(self, process: Process, ledger: fleet.Ledger, prefixes: PrefixIndex) -> None:
        self._process = process
        self._ledger = ledger
        self._prefixes = prefixes
        self.exact = ExactIndex()
        self.sources: dict[fleet.EndpointState, Source] = {}
        self.tokens = PromptTokens(process, self.exact, self.sources.__contains__)
        self.silences = 0
        self._past: Counter[str] = Counter()
        self._turns = PublisherTurns()
        self._is_started = False
        self._pools: Sequence[routing.Pool] = ()

    def start(self) -> None:
        """Start the subscriptions."""
        self._is_started = True
        self._follow()

    def use(self, pools: Sequence[routing.Pool]) -> None:
        """Subscribe to the endpoints of these pools that publish."""
        self._pools = pools
        self._follow()

    def _follow(self) -> None:
        wanted = self._wanted() if self._is_started else {}
        for load, source in list(self.sources.items()):
            if wanted.get(load) != source.target:
                self._past.update(source.counts())
                source.end()
                self.tokens.forget(load)
                del self.sources[load]
        self._prefixes.exact = self.exact if wanted else None
        for load, target in wanted.items():
            if load not in self.sources:
                source = self.sources[load] = Source(
                    target, load, self._process, self._prefixes, self.exact, self._turns
                )
                source.listen()

    def _wanted(self) -> dict[fleet.EndpointState, Target]:
        found: dict[fleet.EndpointState, Target] = {}
        for pool in self._pools:
            for endpoint in pool.endpoints:
                events = pool.kv_events.get(endpoint)
                if events is not None:
                    load = self._ledger.load(endpoint)
                    found.setdefault(load, Target(endpoint=endpoint, events=events, tls=pool.tls))
        return found

    def sent(self, request: scheduling.Request, body: Body, choice: scheduling.Choice, now: float) -> None:
        """Record that a request was sent to an engine: note whether it must report blocks, and whether to
        tokenize the prompt."""
        source = self.sources.get(choice.load)
        if source is None or not request.prefix:
            return
        block_tokens = self.exact.residency.block_tokens(choice.load)
        if choice.cached_tokens + 4 * max(block_tokens, 16) < request.prompt_tokens:
            source.expect_report(now)
        if self.exact.wants(request.prefix, choice.load):
            self.tokens.want(request, body, source.load, source.target.tls)

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        for source in self.sources.values():
            if source.is_overdue(now):
                self.silences += 1
                self._past.update(source.counts())
                source.resubscribe()

    def counts(self) -> Counter[str]:
        """Messages by outcome."""
        total = Counter({"read": 0, "repeated": 0, "invalid": 0, "missed": 0})
        total.update(self._past)  # a sum of two Counters would drop zeros
        for source in self.sources.values():
            total.update(source.counts())
        return total

    def shown(self, load: fleet.EndpointState, now: float) -> dict[str, Any] | None:
        """The state of an engine for the admin pages; None if it does not publish."""
        source = self.sources.get(load)
        if source is None:
            return None
        residency = self.exact.residency
        received_at = source.received_at
        return {
            "state": source.state,
            "problem": source.problem or None,
            "is_complete": residency.is_complete(load),
            "blocks": residency.blocks(load),
            "in_tiers": residency.blocks_in_tiers(load),
            "block_tokens": residency.block_tokens(load) or None,
            "messages": dict(source.counts()),
            "heard_s_ago": None if received_at is None else round(now - received_at, 3),
        }
