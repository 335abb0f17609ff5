"""Traffic that is made up: patterns that tell routers apart, with their sizes as parameters.

Is given parameters and a source of chance, and hands on timed requests as a trace would: equal parameters and
seeds give equal requests. Pure.
"""

from headgate.simulator.workloads.burst import Burst
from headgate.simulator.workloads.chat import Chat
from headgate.simulator.workloads.long_context import LongContext
from headgate.simulator.workloads.lora import Lora
from headgate.simulator.workloads.noisy_neighbour import NoisyNeighbour
from headgate.simulator.workloads.shared_prefix import SharedPrefix
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
