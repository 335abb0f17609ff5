"""Traffic that is made up: patterns that tell routers apart, with their sizes as parameters.

Is given parameters and a source of chance, and hands on timed requests as a trace would: equal parameters and
seeds give equal requests. Pure.
"""

from headgate.simulator.workloads.patterns import Burst, Chat, LongContext, Lora, NoisyNeighbour, SharedPrefix
from headgate.simulator.workloads.workload import Workload

WORKLOADS: dict[str, type[Workload]] = {
    "shared-prefix": SharedPrefix,
    "chat": Chat,
    "burst": Burst,
    "lora": Lora,
    "long-context": LongContext,
    "noisy-neighbour": NoisyNeighbour,
}

__all__ = ["WORKLOADS", "Workload"]
