"""Replay one trace with each policy at each rate, one after the other, with progress on a terminal."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.cli.simulate.policies import Compared
from headgate.cli.simulate.results import Drawn, Run
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator import replay
from headgate.simulator.fleet import FleetDescription, FleetRun, RequestRecord, Slo, Summary, run_fleet
from headgate.simulator.fleet.summary import summarize
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest

Item = TypeVar("Item")

_EVERY_S = 0.2


class Watch:
    """Passes requests on one by one, shows progress, and stops at the first Ctrl-C.

    A run stopped this way ends normally: requests that have arrived are served, and can be evaluated. The
    second Ctrl-C ends the process.
    """

    def __init__(self, console: Console) -> None:
        self.is_interrupted = False
        self._console = console
        self._before: Any = None

    def __enter__(self) -> Watch:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def each(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield the items until interrupted; shows a progress bar on terminals only."""
        if not self._console.is_terminal:
            yield from self._until_interrupted(items)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True, auto_refresh=False) as bar:
            task = bar.add_task(label, total=total)
            shown_at = 0.0
            for number, item in enumerate(self._until_interrupted(items)):
                if time.monotonic() - shown_at > _EVERY_S:
                    shown_at = time.monotonic()
                    bar.update(task, completed=number, refresh=True)
                yield item

    def said(self, text: str) -> None:
        """Print a progress message, on terminals only, so that saved output stays clean."""
        if self._console.is_terminal:
            self._console.print(text, highlight=False, markup=False, style="dim", soft_wrap=True)

    def _until_interrupted(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if self.is_interrupted:
                self.said(
                    "stopping after serving the requests that have arrived; Ctrl-C again exits immediately"
                )
                return
            yield item

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.is_interrupted = True


PRECISION = 0.02
"""Relative precision of --find-rate."""


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """The policies to compare and their traffic."""

    requests: list[TimedRequest]
    fleet: FleetDescription
    policies: list[Compared]
    arrivals: list[traces.Arrivals]
    """One for each rate."""
    slo: Slo
    seed: int

    def arranged(self, arrivals: traces.Arrivals) -> list[TimedRequest]:
        """The same requests in the same order at any rate."""
        return traces.arrange(self.requests, arrivals, random.Random(f"{self.seed}/arrivals"))  # noqa: S311

    def run(self, requests: Iterable[TimedRequest], policy: Compared) -> FleetRun:
        """Serve the requests with a new policy on a new fleet."""
        blocks = sum(group.count * group.engine.kv_blocks for group in self.fleet.groups)
        prefixes = PrefixIndex(max_blocks=blocks)
        return run_fleet(requests, self.fleet, policy.make(prefixes), seed=self.seed, prefixes=prefixes)


def compare(contest: Contest, watch: Watch) -> list[Drawn]:
    """Run each policy at each rate, until interrupted."""
    several = len(contest.arrivals) > 1
    drawn: list[Drawn] = []
    for arrivals in contest.arrivals:
        for policy in contest.policies:
            if not watch.is_interrupted:
                drawn.append(_run(contest, policy, arrivals, watch, several=several))
    return [each for each in drawn if each.run.summary.requests]


def find_rates(contest: Contest, target: float, watch: Watch) -> list[Drawn]:
    """For each policy, the run at the highest rate at which `target` of the first tokens are in time."""
    found = (_find(contest, policy, target, watch) for policy in contest.policies)
    return [each for each in found if each is not None]


def _find(contest: Contest, policy: Compared, target: float, watch: Watch) -> Drawn | None:
    """None if interrupted before the rate was found."""
    (arrivals,) = contest.arrivals
    runs: dict[float, Drawn] = {}

    def attainment(rate: float) -> float:
        if watch.is_interrupted:
            return 0.0
        at_rate = msgspec.structs.replace(arrivals, rate_per_s=rate)
        runs[rate] = _run(contest, policy, at_rate, watch, several=True)
        return runs[rate].run.ttft_in_time

    begin = traces.mean_rate(contest.arranged(arrivals)) or 1.0
    search = replay.highest_rate(attainment, begin, target, PRECISION)
    if watch.is_interrupted:
        return None
    best = runs[search.rate_per_s or min(runs)]
    return msgspec.structs.replace(best, run=msgspec.structs.replace(best.run, highest_rate=search))


def _run(
    contest: Contest, policy: Compared, arrivals: traces.Arrivals, watch: Watch, *, several: bool
) -> Drawn:
    requests = contest.arranged(arrivals)
    label = f"{policy.name}, {traces.mean_rate(requests):.3g} req/s" if several else policy.name
    began = time.monotonic()
    ran = contest.run(watch.each(requests, len(requests), label), policy)
    took_s = time.monotonic() - began
    watch.said(
        f"{label}: {ran.ended_s:,.0f} s simulated in {took_s:.1f} s, "
        f"{ran.ended_s / max(took_s, 1e-9):,.0f} times as fast as real time"
    )
    run = Run(
        policy=policy.name,
        interrupted=watch.is_interrupted,
        simulated_s=ran.ended_s,
        summary=ran.summary(contest.slo),
        ttft_in_time=ran.summary(Slo(ttft_s=contest.slo.ttft_s)).slo_share,
        tenants=_by_tenant(ran, requests, contest.slo),
        endpoints=ran.engines,
        retries_denied=ran.retries_denied,
        series=replay.series(ran.records, [engine.name for engine in ran.engines]),
    )
    return Drawn(run=run, label=label, records=ran.records)


def _by_tenant(ran: FleetRun, requests: Sequence[TimedRequest], slo: Slo) -> dict[str, Summary]:
    """Summaries by tenant. Record numbers follow the order of the requests."""
    of_tenant: dict[str, list[RequestRecord]] = {}
    for record in ran.records:
        if tenant := requests[record.number].tenant:
            of_tenant.setdefault(tenant, []).append(record)
    return {tenant: summarize(of_tenant[tenant], ran.engines, slo) for tenant in sorted(of_tenant)}
