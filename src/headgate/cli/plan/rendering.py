"""Print a solution as tables or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headgate.planning.solving import Allocation, Solution
from headgate.planning.system import Server, System

_GAP = "  "


def as_json(found: Solution) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def as_text(system: System, found: Solution) -> Iterator[str]:
    """Servers, accelerators, the total, and servers without an allocation."""
    yield from table(
        (
            "SERVER",
            "CLASS",
            "MODEL",
            "ACCELERATOR",
            "NOW",
            "REPLICAS",
            "COST",
            "TTFT",
            "ITL",
            "SHARE",
            "SERVED",
        ),
        [_row(system.servers[name], allocation) for name, allocation in sorted(found.allocations.items())],
    )
    if found.allocation_by_type:
        yield ""
        yield from table(
            ("TYPE", "USED", "LIMIT", "COST"),
            [
                (kind, str(each.count), "-" if each.limit is None else str(each.limit), f"{each.cost:g}")
                for kind, each in found.allocation_by_type.items()
            ],
        )
    yield ""
    yield f"Cost: {found.cost:g} cents per hour.{proof(found)}"
    for name, reason in sorted(found.unserved.items()):
        yield f"{name} is not served: {reason}."


def _row(server: Server, allocation: Allocation) -> tuple[str, ...]:
    now = server.current_alloc
    return (
        server.name,
        server.service_class,
        server.model,
        allocation.accelerator or "-",
        f"{now.num_replicas} {now.accelerator}" if now.num_replicas else "-",
        str(allocation.num_replicas),
        f"{allocation.cost:g}",
        f"{allocation.ttft_average:.0f}ms" if allocation.num_replicas else "-",
        f"{allocation.itl_average:.1f}ms" if allocation.num_replicas else "-",
        f"{100 * allocation.share:.0f}%" if allocation.num_replicas else "-",
        f"{100 * allocation.served:.0f}%" if allocation.num_replicas else "-",
    )


def proof(found: Solution) -> str:
    if found.optimal is None:
        return ""
    if found.optimal:
        return " No plan that serves as much costs less."
    return f" The time was up: another plan may cost up to {100 * (found.gap or 0):.1f}% less, or serve more."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
