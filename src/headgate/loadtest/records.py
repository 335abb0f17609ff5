"""What a run experienced: one record for each request, and counts, histograms and windows of all of them.

Memory is bounded however long a run is: of more than `MAX_RECORDS` requests, every second one is kept, then
every fourth; windows of time become wider; endpoints and kinds of errors beyond a number are counted as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headgate.loadtest.histogram import Histogram

MAX_RECORDS: Final = 100_000
MAX_WINDOWS: Final = 240
MAX_ENDPOINTS: Final = 512
MAX_KINDS: Final = 64
OTHERS: Final = "(others)"
OK: Final = "ok"
INTERRUPTED: Final = "interrupted"
DROPPED: Final = "dropped"


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Objectives of a request, in seconds; None for no objective."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None

    @property
    def is_any(self) -> bool:
        return self != Slo()

    def is_met(self, record: Record) -> bool:
        """Whether a request succeeded in time. A response of one token has no time between tokens."""
        return (
            record.outcome == OK
            and _within(record.ttft_s, self.ttft_s, is_required=True)
            and _within(record.tpot_s, self.tpot_s, is_required=False)
            and _within(record.latency_s, self.latency_s, is_required=True)
        )


def _within(found_s: float | None, most_s: float | None, *, is_required: bool) -> bool:
    if most_s is None:
        return True
    return not is_required if found_s is None else found_s <= most_s


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What one request experienced. All times count from when it was due, not from when it was sent."""

    number: int
    due_s: float
    """Since the run began."""
    late_s: float
    """From due to sent."""
    outcome: str
    """`ok`, `dropped`, or the kind of error."""
    ttft_s: float | None = None
    tpot_s: float | None = None
    """Mean time of a token after the first."""
    latency_s: float | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    endpoint: str = ""
    is_good: bool = False
    """Whether it met the objectives."""


class EndpointTally(msgspec.Struct):
    requests: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    ttft: Histogram = msgspec.field(default_factory=Histogram)


class Window(msgspec.Struct):
    """Requests that were due in a part of the run."""

    requests: int = 0
    failed: int = 0
    output_tokens: int = 0
    ttft: Histogram = msgspec.field(default_factory=Histogram)
    itl: Histogram = msgspec.field(default_factory=Histogram)

    def add(self, other: Window) -> None:
        self.requests += other.requests
        self.failed += other.failed
        self.output_tokens += other.output_tokens
        self.ttft.add(other.ttft)
        self.itl.add(other.itl)


class Windows(msgspec.Struct):
    """Parts of a run of equal width; it doubles when there are too many."""

    width_s: float = 1.0
    parts: list[Window] = []

    def at(self, due_s: float) -> Window:
        while due_s >= self.width_s * MAX_WINDOWS:
            self._widen()
        place = max(int(due_s / self.width_s), 0)
        while len(self.parts) <= place:
            self.parts.append(Window())
        return self.parts[place]

    def add(self, other: Windows) -> None:
        """Add those of another process in the same run."""
        while self.width_s < other.width_s:
            self._widen()
        for place, part in enumerate(other.parts):
            self.at(place * other.width_s).add(part)

    def _widen(self) -> None:
        self.width_s *= 2
        for first, second in zip(self.parts[::2], self.parts[1::2], strict=False):
            first.add(second)
        self.parts = self.parts[::2]


class Tally(msgspec.Struct):
    """All requests of a run, or of one process of it."""

    slo: Slo = Slo()
    requests: int = 0
    """Completed or failed, without those that were interrupted."""
    interrupted: int = 0
    dropped: int = 0
    """Not sent, because too many were in flight."""
    errors: dict[str, int] = {}
    examples: dict[str, str] = {}
    """A message for each kind of error."""
    other_models: dict[str, int] = {}
    """Requests without error that a model took over from the one that was asked, by its name."""
    good: int = 0
    prompt_tokens: int = 0
    """By the server's count, or by the plan where it has none; of requests without error."""
    output_tokens: int = 0
    cached_tokens: int = 0
    asked_tokens: tuple[int, int] = (0, 0)
    """Tokens of prompts and outputs by the plan, of requests without error."""
    ttft: Histogram = msgspec.field(default_factory=Histogram)
    tpot: Histogram = msgspec.field(default_factory=Histogram)
    latency: Histogram = msgspec.field(default_factory=Histogram)
    late: Histogram = msgspec.field(default_factory=Histogram)
    endpoints: dict[str, EndpointTally] = {}
    windows: Windows = msgspec.field(default_factory=Windows)
    records: list[Record] = []
    stride: int = 1
    """Records are kept of requests whose number is divisible by this."""

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def itl(self) -> Histogram:
        """Times between events with tokens, of all windows."""
        total = Histogram()
        for part in self.windows.parts:
            total.add(part.itl)
        return total

    def take(
        self,
        record: Record,
        gaps_s: Sequence[float] = (),
        asked: tuple[int, int] = (0, 0),
        message: str = "",
    ) -> None:
        """Count one request that has ended. `asked`: tokens of its prompt and output by the plan."""
        if record.outcome == INTERRUPTED:
            self.interrupted += 1
            return
        self.requests += 1
        self.late.record(record.late_s)
        window = self.windows.at(record.due_s)
        window.requests += 1
        if record.outcome == OK:
            self._succeeded(record, asked)
            self.good += record.is_good
            window.output_tokens += record.output_tokens
        else:
            self._failed(record.outcome, message)
            window.failed += 1
        if record.ttft_s is not None and record.outcome == OK:
            self.ttft.record(record.ttft_s)
            window.ttft.record(record.ttft_s)
        if record.outcome == OK:
            window.itl.record_all(gaps_s)
        if record.endpoint:
            self._of_endpoint(record)
        self._keep(record)

    def took_over(self, model: str, count: int = 1) -> None:
        """Note that another model responded."""
        if model not in self.other_models and len(self.other_models) >= MAX_KINDS:
            model = OTHERS
        self.other_models[model] = self.other_models.get(model, 0) + count

    def drop(self, number: int, due_s: float) -> None:
        """Count a request that was not sent; comparisons see it as a failure."""
        self.dropped += 1
        self._keep(Record(number, due_s, 0.0, DROPPED))

    def add(self, other: Tally) -> None:
        """Count all requests of another process."""
        for name in ("requests", "interrupted", "dropped", "good"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("prompt_tokens", "output_tokens", "cached_tokens"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.asked_tokens = (
            self.asked_tokens[0] + other.asked_tokens[0],
            self.asked_tokens[1] + other.asked_tokens[1],
        )
        for kind, count in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + count
        self.examples = other.examples | self.examples
        for model, count in other.other_models.items():
            self.took_over(model, count)
        for name in ("ttft", "tpot", "latency", "late"):
            getattr(self, name).add(getattr(other, name))
        for endpoint, tally in other.endpoints.items():
            mine = self._endpoint(endpoint)
            mine.requests += tally.requests
            mine.failed += tally.failed
            mine.prompt_tokens += tally.prompt_tokens
            mine.cached_tokens += tally.cached_tokens
            mine.ttft.add(tally.ttft)
        self.windows.add(other.windows)
        self.stride = max(self.stride, other.stride)
        self.records = [each for each in self.records if not each.number % self.stride]
        for record in other.records:
            self._keep(record)

    def _succeeded(self, record: Record, asked: tuple[int, int]) -> None:
        self.prompt_tokens += record.prompt_tokens
        self.output_tokens += record.output_tokens
        self.cached_tokens += record.cached_tokens or 0
        self.asked_tokens = (self.asked_tokens[0] + asked[0], self.asked_tokens[1] + asked[1])
        if record.tpot_s is not None:
            self.tpot.record(record.tpot_s)
        if record.latency_s is not None:
            self.latency.record(record.latency_s)

    def _failed(self, kind: str, message: str) -> None:
        if kind not in self.errors and len(self.errors) >= MAX_KINDS:
            kind = OTHERS
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self.examples.setdefault(kind, message)

    def _of_endpoint(self, record: Record) -> None:
        tally = self._endpoint(record.endpoint)
        tally.requests += 1
        if record.outcome != OK:
            tally.failed += 1
            return
        tally.prompt_tokens += record.prompt_tokens
        tally.cached_tokens += record.cached_tokens or 0
        if record.ttft_s is not None:
            tally.ttft.record(record.ttft_s)

    def _endpoint(self, name: str) -> EndpointTally:
        if name not in self.endpoints and len(self.endpoints) >= MAX_ENDPOINTS:
            name = OTHERS
        return self.endpoints.setdefault(name, EndpointTally())

    def _keep(self, record: Record) -> None:
        if record.number % self.stride:
            return
        self.records.append(record)
        if len(self.records) > MAX_RECORDS:
            self.stride *= 2
            self.records = [each for each in self.records if not each.number % self.stride]
