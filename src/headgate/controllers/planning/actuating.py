"""Writes the replicas of workloads whose VariantAutoscaling asks for it: headgate.dev/actuate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.autoscaling.claims import Claimant
from headgate.controllers.autoscaling.following import BINDING, VARIANT
from headgate.controllers.autoscaling.scaling import Scaled, Scaler
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.controllers.conditions import Finding
from headgate.controllers.planning.status import ACTUATED, counted
from headgate.planning.steadiness import Steadiness

_KEDA: Final = "keda-hpa-"
"""KEDA names the HorizontalPodAutoscalers of ScaledObjects so."""


def is_direct(obj: api.VariantAutoscaling) -> bool:
    return obj.metadata.annotations.get(marks.ACTUATE) == marks.DIRECT


def refusal(obj: api.VariantAutoscaling, workload: Scalable, claimants: Sequence[Claimant]) -> Finding | None:
    """Why the replicas are not written, or why the gauges have no effect. `claimants` are in order of
    precedence."""
    asked = obj.metadata.annotations.get(marks.ACTUATE)
    if asked is not None and asked != marks.DIRECT:
        told = f'metadata.annotations[{marks.ACTUATE}]: "{asked[:64]}" is not "{marks.DIRECT}"; others scale'
        return Finding(ACTUATED, False, "InvalidAnnotation", told)
    rivals = [each for each in claimants if each.kind not in (BINDING, VARIANT)] if asked else []
    if claimants and claimants[0].kind == BINDING:
        rivals.append(claimants[0])
    if not rivals:
        return None
    who = " and ".join(_named(each) for each in rivals)
    decide = "decides" if len(rivals) == 1 else "decide"
    fix = f"delete it, or the annotation {marks.ACTUATE}" if asked else "delete one of them"
    return Finding(ACTUATED, False, "Conflict", f"{who} {decide} the replicas of {workload.place}; {fix}")


class Window:
    """The replicas of one workload: up at once, and down to the most that were wanted for some time."""

    def __init__(self) -> None:
        self._steadiness: Steadiness | None = None

    def after(self, wanted: int, current: int, now: float, window_s: float) -> int:
        """How many to have. At the first time, the current ones count as wanted, as nobody knows what was
        wanted before."""
        if self._steadiness is None:
            self._steadiness = Steadiness()
            self._steadiness.decide(current, now, window_s)
        return min(self._steadiness.decide(wanted, now, window_s), max(current, wanted))

    def clear(self) -> None:
        self._steadiness = None


def without_plan(workload: Scalable) -> Finding:
    """Nothing was planned now."""
    return Finding(ACTUATED, True, "Direct", f"{workload.place} keeps its replicas until there is a plan")


async def write(scaler: Scaler, workload: Scalable, replicas: int, wanted: int, window_s: float) -> Finding:
    """Raises ApiError other than NotFound, Conflict, Forbidden and Invalid."""
    try:
        done = await scaler.scale(workload, replicas)
    except (cluster.Forbidden, cluster.Invalid) as error:
        told = f"{workload.place} cannot get {counted(replicas)}: {error}"
        return Finding(ACTUATED, False, "Rejected", told)
    if done in (Scaled.OUTDATED, Scaled.GONE):
        return Finding(
            ACTUATED, True, "Direct", f"{workload.place} has changed meanwhile, and is looked at again"
        )
    told = f"{workload.place} has {counted(replicas)}"
    if replicas > wanted:
        told += f"; replicas go once no more were wanted for {window_s:.0f} s"
    return Finding(ACTUATED, True, "Direct", told)


def _named(claimant: Claimant) -> str:
    if not claimant.name.startswith(_KEDA):
        return str(claimant)
    return f"{claimant} (of ScaledObject {claimant.name.removeprefix(_KEDA)})"
