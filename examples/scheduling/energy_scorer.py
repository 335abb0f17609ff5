"""An example scorer: prefer endpoints on the GPUs that draw the least power."""

from typing import Annotated

import msgspec

from headgate.scheduling.plugins import Cycle, Loads, Scorer


class Parameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    label: str = "example.com/gpu-watts"
    most_watts: Annotated[float, msgspec.Meta(gt=0)] = 700.0


class EnergyScorer(Scorer):
    """Score 1 - watts / mostWatts, from a label of the Pod; 0 without the label."""

    Parameters = Parameters

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self._parameters = parameters

    def scores(self, cycle: Cycle, loads: Loads) -> list[float]:
        most = self._parameters.most_watts
        return [1.0 - float(load.labels.get(self._parameters.label, most)) / most for load in loads]
