"""Print why a plan is as it is, and two plans side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from headgate.cli.plan.rendering import proof, table
from headgate.planning.changing import differences
from headgate.planning.explaining import DemandExplained, OneLess, Predicted, ServerExplained
from headgate.planning.replica import Profile
from headgate.planning.solving import Allocation, Solution
from headgate.planning.system import Server, System

if TYPE_CHECKING:
    from headgate.cli.plan.living import Learned

_LIMITS = {
    "ttft": "the TTFT objective",
    "itl": "the ITL objective",
    "tps": "the throughput objective",
    "capacity": "the engine's throughput",
}


def as_json(
    demands: Sequence[DemandExplained],
    problems: Mapping[str, Sequence[str]],
    learned: Mapping[str, Learned],
) -> str:
    """`learned` are profiles, by server."""
    shown = {"demands": demands, "problems": problems, "learned": learned}
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode() + "\n"


def as_text(
    demands: Iterable[DemandExplained],
    problems: Mapping[str, Sequence[str]],
    unplanned: Sequence[str],
    learned: Mapping[str, Learned],
) -> Iterator[str]:
    """Demands, then objects that are not planned, then problems of objects."""
    sections = itertools.chain(
        (_demand(each, learned) for each in demands),
        [["Not planned, as their load is not known (--demand gives it), or by their problems:", *unplanned]]
        if unplanned
        else [],
        [[f"{name}: {each}" for name, listed in sorted(problems.items()) for each in listed]]
        if problems
        else [],
    )
    for index, lines in enumerate(sections):
        if index:
            yield ""
        yield from lines


def _demand(demand: DemandExplained, learned: Mapping[str, Learned]) -> Iterator[str]:
    """One demand: its load and objectives, its servers, and what else could be."""
    yield f"{demand.model}, class {demand.service_class} (priority {demand.priority})"
    yield f"  demand: {_load(demand)}"
    yield f"  objectives: {_objectives(demand)}"
    if demand.unserved:
        yield f"  not served: {demand.unserved}"
    if demand.served < 1 and demand.servers:
        yield f"  {_percent(demand.served)} of the requests are served: there are too few accelerators"
    if demand.servers:
        yield f"  cost: {demand.cost:g} cents per hour"
    elif not demand.unserved:
        yield "  no replicas: there is no load"
    for server in demand.servers:
        yield from _server(demand, server, learned.get(server.server))
    for each in demand.leaving:
        yield f"  {each.server}: no replicas, {each.num_replicas} of {each.accelerator} now"
    if demand.servers and demand.load.arrival_rate:
        yield f"  next best: {_runner_up(demand)}"
    if not demand.unserved:
        for name, reason in demand.rejected.items():
            yield f"  no choice: {name}: {reason}"


def _load(demand: DemandExplained) -> str:
    load = demand.load
    if not load.arrival_rate:
        return "none"
    lengths = f"{load.avg_in_tokens:g} tokens in and {load.avg_out_tokens:g} out"
    return f"{load.arrival_rate:g} requests per minute, {lengths}"


def _of(demand: DemandExplained) -> str:
    return "mean" if demand.percentile is None else f"p{demand.percentile:g}"


def _objectives(demand: DemandExplained) -> str:
    target = demand.target
    if target is None:
        return "none"
    found = [
        f"{_of(demand)} TTFT {target.ttft:g} ms" if target.ttft else "",
        f"ITL {target.itl:g} ms" if target.itl else "",
        f"{target.tps:g} tokens per second" if target.tps else "",
    ]
    return ", ".join(each for each in found if each) or "none"


def _server(demand: DemandExplained, server: ServerExplained, learned: Learned | None) -> Iterator[str]:
    share = "" if server.share > 1 - 1e-6 else f" for {_percent(server.share)} of the requests"
    yield f"  {server.server}: {_number(server.num_replicas)} of {server.accelerator}{share}{_change(server)}"
    if not server.binding:
        yield "    the minimum: there is no load"
        return
    yield (
        f"    each takes {server.arrival_rate:.4g} of at most {server.max_arrival_rate:.4g} requests per "
        f"minute, limited by {_LIMITS[server.binding]}"
    )
    yield f"    {_predicted(demand, server.predicted)}"
    if server.profile is not None:
        source = f", learned from {learned.observations} observations" if learned is not None else ""
        yield f"    profile: {_profile(server.profile)}{source}"
    if learned is not None:
        yield f"    profile of the spec: {_profile(learned.spec)}"
    if server.one_less is not None:
        yield f"    one less: {_one_less(demand, server.one_less)}"


def _change(server: ServerExplained) -> str:
    change = server.num_replicas - server.current_replicas
    if not change:
        return ", as now"
    return f", {abs(change)} {'more' if change > 0 else 'less'} than now"


def _predicted(demand: DemandExplained, found: Predicted) -> str:
    met = (
        "" if found.attained is None else f"; {_percent(found.attained)} of requests meet the TTFT objective"
    )
    return f"{_of(demand)} TTFT {found.ttft:.0f} ms, ITL {found.itl:.1f} ms{met}"


def _profile(profile: Profile) -> str:
    numbers = zip(("alpha", "beta", "gamma", "delta"), msgspec.structs.astuple(profile), strict=True)
    return ", ".join(f"{name} {number:.6g}" for name, number in numbers)


def _one_less(demand: DemandExplained, less: OneLess) -> str:
    saved = f"saves {less.saves:g} cents per hour"
    if not less.served:
        return f"{saved}, and serves nothing"
    if demand.served < 1:
        return f"{saved}, and serves {_percent(less.served)} of the requests"
    if less.predicted is None:
        return f"{saved}, but {less.overload:.1f} times as many requests arrive as can be completed"
    return f"{saved}: {_predicted(demand, less.predicted)}"


def _runner_up(demand: DemandExplained) -> str:
    if demand.runner_up is None:
        return "nothing else serves as much"
    uses = " and ".join(
        f"{each.num_replicas} {each.accelerator} ({each.server})" for each in demand.runner_up.uses
    )
    more = demand.runner_up.cost_diff
    return f"{uses}, {abs(more):g} cents per hour {'more' if more >= 0 else 'less'}"


def _number(replicas: int) -> str:
    return f"{replicas} replica{'' if replicas == 1 else 's'}"


def _percent(share: float) -> str:
    """Rounded down, so that 100% means all."""
    return f"{int(share * 1000 + 1e-6) / 10:g}%"


def comparison_as_json(before: Solution, after: Solution) -> str:
    shown = {"before": before, "after": after, "differences": differences(before, after)}
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode() + "\n"


def comparison_as_text(system: System, before: Solution, after: Solution) -> Iterator[str]:
    """A row for each server, the accelerators, and the costs."""
    rows = [
        _compared(system.servers[name], before.allocations.get(name), after.allocations.get(name))
        for name in sorted({*before.allocations, *after.allocations})
    ]
    yield from table(("SERVER", "CLASS", "MODEL", "BEFORE", "AFTER", "COST", "TTFT", "ITL"), rows)
    kinds = sorted({*before.allocation_by_type, *after.allocation_by_type})
    if kinds:
        yield ""
        yield from table(
            ("TYPE", "BEFORE", "AFTER"),
            [(kind, _used(before, kind), _used(after, kind)) for kind in kinds],
        )
    yield ""
    more = after.cost - before.cost
    yield (
        f"Cost: {before.cost:g} cents per hour before, {after.cost:g} after: "
        f"{f'{abs(more):g} ' + ('more' if more > 0 else 'less') if abs(more) > 1e-9 else 'the same'}."
    )
    for when, found in (("Before", before), ("After", after)):
        for name, reason in sorted(found.unserved.items()):
            yield f"{when}: {name} is not served: {reason}."
        if found.optimal is False:
            yield f"{when}:{proof(found)}"


def _compared(server: Server, one: Allocation | None, other: Allocation | None) -> tuple[str, ...]:
    return (
        server.name,
        server.service_class,
        server.model,
        _runs(one),
        _runs(other),
        _pair(_cost(one), _cost(other)),
        _pair(_ttft(one), _ttft(other)),
        _pair(_itl(one), _itl(other)),
    )


def _pair(one: str, other: str) -> str:
    return one if one == other else f"{one} -> {other}"


def _runs(found: Allocation | None) -> str:
    if found is None or not found.num_replicas:
        return "-"
    part = "" if found.served > 1 - 1e-6 else f", {_percent(found.served)} served"
    return f"{found.num_replicas} {found.accelerator}{part}"


def _cost(found: Allocation | None) -> str:
    return "-" if found is None else f"{found.cost:g}"


def _ttft(found: Allocation | None) -> str:
    return f"{found.ttft_average:.0f}ms" if found is not None and found.num_replicas else "-"


def _itl(found: Allocation | None) -> str:
    return f"{found.itl_average:.1f}ms" if found is not None and found.num_replicas else "-"


def _used(found: Solution, kind: str) -> str:
    one = found.allocation_by_type.get(kind)
    if one is None:
        return "-"
    return str(one.count) if one.limit is None else f"{one.count} of {one.limit}"
