"""The same system with other objectives, prices, accelerators or demands, to compare plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from headgate.planning.reallocating import Difference, difference
from headgate.planning.solving import Solution
from headgate.planning.system import PLENTY, AllocationData, Load, Server, System, Target

__all__ = [
    "Capacity",
    "Change",
    "ChangeError",
    "Demand",
    "Price",
    "Slo",
    "changed",
    "differences",
    "parse_capacity",
    "parse_demand",
    "parse_price",
    "parse_slo",
]

_SHOWN: Final = 10


class ChangeError(ValueError):
    """A change that concerns nothing in the system, with what it could concern."""


class Slo(NamedTuple):
    """Another target. `of` is a class, a model, or class/model; empty: all of them."""

    of: str
    field: Literal["ttft", "itl", "tps", "percentile"]
    value: float


class Price(NamedTuple):
    """Cents per hour of an accelerator."""

    accelerator: str
    cost: float


class Capacity(NamedTuple):
    """Accelerators of a type."""

    type: str
    number: int


class Demand(NamedTuple):
    """Other requests. `of` is a server, a demand or a model; empty: all of them."""

    of: str
    per_min: float | None = None
    """For all servers of a demand together."""
    factor: float = 1.0
    """Without a rate: what the present one is multiplied by."""
    tokens: tuple[float, float] | None = None
    """Lengths of prompts and responses; None: as they are."""


Change = Slo | Price | Capacity | Demand


def changed(system: System, changes: Iterable[Change]) -> System:
    """The system after all changes, in order. Raises ChangeError."""
    for change in changes:
        match change:
            case Slo():
                system = _with_slo(system, change)
            case Price():
                system = _with_price(system, change)
            case Capacity():
                system = _with_capacity(system, change)
            case Demand():
                system = _with_demand(system, change)
    return system


def differences(before: Solution, after: Solution) -> dict[str, Difference]:
    """What changes for each server, by name; those that stay are left out."""
    found: dict[str, Difference] = {}
    for name in sorted({*before.allocations, *after.allocations}):
        one = difference(_allocation(before, name), _allocation(after, name))
        if one is not None and _is_change(one):
            found[name] = one
    return found


def _is_change(one: Difference) -> bool:
    is_moved = one.old_accelerator != one.new_accelerator
    return is_moved or one.old_num_replicas != one.new_num_replicas or one.cost_diff != 0


def _allocation(solution: Solution, name: str) -> AllocationData | None:
    found = solution.allocations.get(name)
    if found is None:
        return None
    return AllocationData(accelerator=found.accelerator, num_replicas=found.num_replicas, cost=found.cost)


def _with_slo(system: System, change: Slo) -> System:
    is_found = False

    def one(name: str, target: Target) -> Target:
        nonlocal is_found
        if change.of not in ("", name, target.model, f"{name}/{target.model}"):
            return target
        is_found = True
        return msgspec.structs.replace(target, **{change.field: change.value})

    classes = {
        name: msgspec.structs.replace(
            each, model_targets=[one(name, target) for target in each.model_targets]
        )
        for name, each in system.classes.items()
    }
    if not is_found:
        known = [
            f"{name}/{target.model}" for name, each in system.classes.items() for target in each.model_targets
        ]
        raise ChangeError(_unknown("class or model with targets", change.of, known))
    return msgspec.structs.replace(system, classes=classes)


def _with_price(system: System, change: Price) -> System:
    own = system.accelerators.get(change.accelerator)
    if own is None:
        raise ChangeError(_unknown("accelerator", change.accelerator, system.accelerators))
    new = msgspec.structs.replace(own, cost=change.cost)
    ratio = change.cost / own.cost if own.cost else 1.0
    servers = {name: _repriced(each, change.accelerator, ratio) for name, each in system.servers.items()}
    accelerators = {**system.accelerators, change.accelerator: new}
    return msgspec.structs.replace(system, accelerators=accelerators, servers=servers)


def _repriced(server: Server, accelerator: str, ratio: float) -> Server:
    """What runs there now costs the new price, too."""
    current = server.current_alloc
    if current.accelerator != accelerator:
        return server
    return msgspec.structs.replace(
        server, current_alloc=msgspec.structs.replace(current, cost=current.cost * ratio)
    )


def _with_capacity(system: System, change: Capacity) -> System:
    """Where nothing was limited, only this type is."""
    kinds = {each.kind for each in system.accelerators.values()}
    if change.type not in {*kinds, *system.capacity}:
        raise ChangeError(_unknown("type of accelerators", change.type, sorted(kinds)))
    before = dict.fromkeys(kinds, PLENTY) if system.optimizer.unlimited else system.capacity
    return msgspec.structs.replace(
        system,
        capacity={**before, change.type: change.number},
        optimizer=msgspec.structs.replace(system.optimizer, unlimited=False),
    )


def _with_demand(system: System, change: Demand) -> System:
    names = {
        name: _demand_of(each)
        for name, each in system.servers.items()
        if change.of in ("", name, each.demand, each.model)
    }
    if not names:
        known = sorted({each.model for each in system.servers.values()})
        raise ChangeError(_unknown("server, demand or model", change.of, known))
    servers = dict(system.servers)
    for demand in dict.fromkeys(names.values()):
        own = [each for each in system.servers.values() if _demand_of(each) == demand]
        servers |= {each.name: each for each in _with_loads(own, change)}
    return msgspec.structs.replace(system, servers=servers)


def _demand_of(server: Server) -> tuple[str, str]:
    return ("demand", server.demand) if server.demand else ("server", server.name)


def _with_loads(servers: Sequence[Server], change: Demand) -> Iterator[Server]:
    """The servers of one demand; a new rate is that of the first, since those of all are added up."""
    known = next((each for each in servers if each.current_alloc.load.avg_out_tokens), servers[0])
    lengths = change.tokens or (
        known.current_alloc.load.avg_in_tokens,
        known.current_alloc.load.avg_out_tokens,
    )
    if change.per_min and not lengths[1]:
        told = f"{servers[0].name} has no load now: give the lengths of prompts and responses, too"
        raise ChangeError(f"{told}, as in {servers[0].model}={change.per_min:g},512,256")
    for index, server in enumerate(servers):
        load = server.current_alloc.load
        rate = load.arrival_rate * change.factor
        if change.per_min is not None:
            rate = change.per_min if index == 0 else 0.0
        if change.per_min is not None or change.tokens is not None:
            load = Load(
                avg_in_tokens=lengths[0],
                in_tokens_spread=known.current_alloc.load.in_tokens_spread,
                avg_out_tokens=lengths[1],
            )
        load = msgspec.structs.replace(load, arrival_rate=rate)
        current = msgspec.structs.replace(server.current_alloc, load=load)
        yield msgspec.structs.replace(server, current_alloc=current)


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    listed = ", ".join(names[:_SHOWN]) + more
    return f"there is no {what} {name}; there {_verb(names)} {listed or 'none'}"


def _verb(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def parse_slo(field: Literal["ttft", "itl", "tps", "percentile"]) -> Callable[[str], Slo]:
    """Reads "[CLASS|MODEL|CLASS/MODEL=]VALUE". Raises ValueError."""

    def parse(text: str) -> Slo:
        of, value = _split(text)
        number = _number(value)
        if field == "percentile" and not 1 <= number <= 99.99:
            raise ValueError(f"{value} is not a percentage from 1 to 99.99")
        return Slo(of, field, number)

    return parse


def parse_price(text: str) -> Price:
    """Reads "ACCELERATOR=CENTS". Raises ValueError."""
    of, value = _split(text)
    if not of:
        raise ValueError(f"{text} names no accelerator; write it as in L40S=100")
    return Price(of, _number(value))


def parse_capacity(text: str) -> Capacity:
    """Reads "TYPE=COUNT". Raises ValueError."""
    of, value = _split(text)
    if not of or not value.isascii() or not value.isdigit() or len(value) > 7:
        raise ValueError(f"{text} is not a type and its number; write it as in H100=8")
    return Capacity(of, int(value))


def parse_demand(text: str) -> Demand:
    """Reads "[SERVER|DEMAND|MODEL=]PER_MINUTE[,PROMPT,RESPONSE]", or a factor such as x2 in its place.

    Raises ValueError.
    """
    of, value = _split(text)
    if value.startswith("x"):
        return Demand(of, factor=_number(value[1:]))
    numbers = [_number(each) for each in value.split(",")]
    if len(numbers) not in (1, 3):
        raise ValueError(f"{value} is neither a rate nor a rate with two lengths, as in 600,512,256")
    if len(numbers) == 3 and numbers[2] < 1:
        raise ValueError(f"{value}: responses have at least one token")
    return Demand(of, numbers[0], tokens=(numbers[1], numbers[2]) if len(numbers) == 3 else None)


def _split(text: str) -> tuple[str, str]:
    """What it is for, "" if nothing is named, and the value; names may have "=" themselves."""
    of, _, value = text.rpartition("=")
    return of, value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e9:
        raise ValueError(f"{text!r} is not a number from 0 to 1000000000")
    return value
