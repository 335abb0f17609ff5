"""Generated traffic: patterns that distinguish routers, with configurable sizes.

Takes parameters and a random generator; returns timed requests like those of a trace: equal parameters and
seeds produce equal requests. Pure.
"""

from headgate.traffic.workloads.patterns import (
    Burst,
    Chat,
    Independent,
    LongContext,
    Lora,
    NoisyNeighbour,
    SharedPrefix,
)
from headgate.traffic.workloads.workload import Workload

WORKLOADS: dict[str, type[Workload]] = {
    "independent": Independent,
    "shared-prefix": SharedPrefix,
    "chat": Chat,
    "burst": Burst,
    "lora": Lora,
    "long-context": LongContext,
    "noisy-neighbour": NoisyNeighbour,
}

__all__ = ["WORKLOADS", "Workload"]
