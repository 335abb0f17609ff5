"""Random problems and systems of 1,000 variants: 100 models, 10 types of accelerators, 5 priorities."""

from __future__ import annotations

import random
from typing import Any, Final

from headgate.planning import Demand, Option, Problem, plan
from headgate.planning.system import (
    Accelerator,
    AllocationData,
    DecodeParms,
    Load,
    Performance,
    PrefillParms,
    Server,
    ServiceClass,
    System,
    Target,
)

__all__ = ["SHAPES", "SHARES", "problem", "system"]

MODELS: Final = 100
TYPES: Final = 10
SHAPES: Final[dict[str, dict[str, Any]]] = {
    "mixed": {},
    "price by type": {"by_type": True},
    "minimum of 1": {"minimum": 1},
    "small models": {"rate": (0.1, 3)},
    "up to 8 GPUs": {"units": (1, 2, 4, 8)},
    "100 replicas each": {"rate": (100, 400)},
}
SHARES: Final = (None, 0.75, 0.5, 0.3)
"""Of the accelerators that the cheapest plan uses, and 8 more of each type; None: no limit."""


def problem(shape: str, share: float | None, seed: int) -> Problem:
    demands = _demands(random.Random(seed), **SHAPES[shape])
    if share is None:
        return Problem(demands=demands)
    used = {f"t{number}": 8 for number in range(TYPES)}
    for each in plan(Problem(demands=demands)).assignments:
        used[each.option.type] += each.replicas * each.option.units
    return Problem(demands=demands, capacity={kind: int(share * number) for kind, number in used.items()})


def _demands(
    rng: random.Random,
    *,
    rate: tuple[float, float] = (1, 20),
    units: tuple[int, ...] = (1, 1, 2),
    minimum: int = 0,
    by_type: bool = False,
) -> tuple[Demand, ...]:
    prices = [rng.randint(20, 120) for _ in range(TYPES)]
    demands = []
    for model in range(MODELS):
        options = []
        for number in range(TYPES):
            own = rng.choice(units)
            option = Option(
                server=f"m{model}-{number}",
                accelerator=f"t{number}",
                type=f"t{number}",
                units=own,
                cost=prices[number] * own if by_type else rng.randint(20, 120),
                rate_per_s=rng.uniform(0.5, 3),
                minimum=minimum,
                current=rng.choice([0, 0, 2]),
            )
            options.append(option)
        demand = Demand(
            name=f"m{model}",
            rate_per_s=rng.uniform(*rate),
            priority=rng.randint(1, 5),
            options=tuple(options),
        )
        demands.append(demand)
    return tuple(demands)


def system(seed: int) -> System:
    """Variants with random profiles, batches, lengths and objectives, which all need to be sized."""
    rng = random.Random(seed)
    types = [f"t{number}" for number in range(TYPES)]
    servers: dict[str, Server] = {}
    profiles: dict[str, Performance] = {}
    classes: dict[str, ServiceClass] = {}
    for model in (f"m{number}" for number in range(MODELS)):
        load = Load(
            arrival_rate=rng.uniform(60, 6000),
            avg_in_tokens=rng.uniform(100, 2000),
            avg_out_tokens=rng.uniform(50, 500),
        )
        target = Target(model=model, itl=rng.uniform(40, 100), ttft=rng.uniform(500, 4000))
        classes[model] = ServiceClass(name=model, priority=rng.randint(1, 5), model_targets=[target])
        for kind in types:
            name = f"{model}-{kind}"
            servers[name] = Server(
                name=name,
                class_=model,
                model=model,
                keep_accelerator=True,
                current_alloc=AllocationData(accelerator=kind, num_replicas=1, load=load),
            )
            profiles[name] = Performance(
                name=model,
                acc=kind,
                max_batch_size=rng.choice((64, 128, 256)),
                decode_parms=DecodeParms(alpha=rng.uniform(5, 25), beta=rng.uniform(0.02, 0.3)),
                prefill_parms=PrefillParms(gamma=rng.uniform(5, 50), delta=rng.uniform(0.02, 0.2)),
            )
    return System(
        accelerators={kind: Accelerator(name=kind, cost=rng.randint(20, 120)) for kind in types},
        performance={},
        own_performance=profiles,
        classes=classes,
        servers=servers,
    )
