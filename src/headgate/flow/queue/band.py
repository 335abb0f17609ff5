"""All queued requests of one priority."""

from __future__ import annotations

from collections import OrderedDict

from headgate.flow.queue.fairness import (
    DeficitRoundRobin,
    Fairness,
    GlobalStrict,
    LeastAttained,
    RoundRobin,
    SessionBoost,
    Usage,
    WindowedUsage,
)
from headgate.flow.queue.flow import Flow
from headgate.flow.queue.lengths import Lengths
from headgate.flow.queue.ordering import KEYS
from headgate.flow.queue.settings import BandSettings, FlowSettings
from headgate.flow.queue.waiting import Waiting


class Band:
    """The flows of a priority band, and whose turn it is."""

    __slots__ = (
        "_key",
        "_lengths",
        "_weights",
        "bytes",
        "credit",
        "fairness",
        "flows",
        "members",
        "priority",
        "settings",
        "work",
    )

    def __init__(self, priority: int, settings: FlowSettings) -> None:
        self.priority = priority
        self.settings: BandSettings = settings.band_of(priority)
        self.members: OrderedDict[Waiting, None] = OrderedDict()
        """In order of arrival."""
        self.bytes = 0
        self.work = 0
        """Tokens of all queued requests."""
        self.credit = 0.0
        """Tokens that it may take before higher bands, by its floor."""
        self.flows: dict[str, Flow] = {}
        """Flows with queued requests; a single one, "", if the policy does not distinguish flows."""
        self.fairness = _fairness(self.settings, settings)
        self._key = KEYS[self.settings.ordering]
        self._weights = settings.weights
        self._lengths = Lengths()

    def __len__(self) -> int:
        return len(self.members)

    @property
    def oldest(self) -> Waiting:
        return next(iter(self.members))

    @property
    def newest(self) -> Waiting:
        return next(reversed(self.members))

    @property
    def longest(self) -> Flow:
        """The flow with the most queued requests."""
        return self._lengths.longest()

    def flow_of(self, name: str) -> Flow | None:
        return self.flows.get(name if self.fairness.knows_flows else "")

    def head(self, now: float) -> Waiting:
        """The next request."""
        return self.fairness.next(now).head

    def add(self, waiting: Waiting, now: float) -> None:
        name = waiting.flow if self.fairness.knows_flows else ""
        flow = self.flows.get(name)
        self.members[waiting] = None
        self.bytes += waiting.size
        self.work += waiting.work
        if flow is None:
            flow = self.flows[name] = Flow(name, self._weights.get(name, 1.0), self._key)
            flow.add(waiting)
            self.fairness.joined(flow, now)
        elif flow.add(waiting):
            self.fairness.moved(flow, now)
        self._lengths.grown(flow)

    def send(self, waiting: Waiting, now: float) -> None:
        """Remove a request that is sent."""
        flow = self.flows[waiting.flow if self.fairness.knows_flows else ""]
        self._detach(waiting, flow)
        self.fairness.took(flow, waiting.work, now)
        if not flow.members:
            self._end(flow, now)

    def remove(self, waiting: Waiting, now: float) -> None:
        """Remove a request that is not sent."""
        flow = self.flows[waiting.flow if self.fairness.knows_flows else ""]
        was_head = self._detach(waiting, flow)
        if not flow.members:
            self._end(flow, now)
        elif was_head:
            self.fairness.moved(flow, now)

    def served(self, name: str, work: int, usage: Usage, now: float, order: int) -> None:
        """Record that a request of a flow has ended."""
        flow = self.flow_of(name)
        if flow is not None and order < flow.since:
            # the flow was not charged for it, or the charge is forgotten: nothing to correct
            work = usage.work
        self.fairness.served(name, flow, work, usage, now)

    def charged(self, name: str, work: int, now: float) -> None:
        """Record that another process sent `work` of a flow; a negative amount corrects an earlier report."""
        flow = self.flow_of(name)
        if flow is not None and work:
            self.fairness.charged(flow, work, now)

    def validate(self) -> None:
        """Check the invariants; for tests."""
        assert self.bytes == sum(waiting.size for waiting in self.members)
        assert self.work == sum(waiting.work for waiting in self.members)
        assert all(waiting.state == "queued" for waiting in self.members)
        assert len(self.members) == sum(len(flow) for flow in self.flows.values())
        orders = [waiting.order for waiting in self.members]
        assert orders == sorted(orders)
        for name, flow in self.flows.items():
            assert flow.name == name
            flow.validate()
        if self.members:
            assert len(self.longest) == max(len(flow) for flow in self.flows.values())

    def _detach(self, waiting: Waiting, flow: Flow) -> bool:
        was_head = flow.remove(waiting)
        del self.members[waiting]
        self.bytes -= waiting.size
        self.work -= waiting.work
        self._lengths.shrunk(flow)
        return was_head

    def _end(self, flow: Flow, now: float) -> None:
        self.fairness.left(flow, now)
        del self.flows[flow.name]
        if not self.members:
            self.credit = 0.0


def _fairness(band: BandSettings, settings: FlowSettings) -> Fairness:
    match band.fairness:
        case "deficit-round-robin":
            return DeficitRoundRobin(settings.quantum)
        case "global-strict-fairness-policy":
            return GlobalStrict()
        case "round-robin-fairness-policy":
            return RoundRobin()
        case "program-aware-fairness":
            return LeastAttained()
        case "windowed-usage":
            return WindowedUsage(settings.window)
        case "session-boost":
            return SessionBoost(settings.sessions)
