"""A scorer of one's own: endpoints on the GPUs that need the least power come first."""

from typing import Annotated

import msgspec

from headgate.scheduling.plugins import Cycle, Loads, Scorer


class Parameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    label: str = "example.com/gpu-watts"
    most_watts: Annotated[float, msgspec.Meta(gt=0)] = 700.0


class EnergyScorer(Scorer):
    """1 - watts / mostWatts, by a label of the Pod; 0 where it has none."""

    Parameters = Parameters

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self._said = parameters

    def scores(self, cycle: Cycle, loads: Loads) -> list[float]:
        most = self._said.most_watts
        return [1.0 - float(load.labels.get(self._said.label, most)) / most for load in loads]
