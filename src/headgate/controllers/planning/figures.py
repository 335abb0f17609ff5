"""The gauges by which HPA and KEDA scale variants, with the names and labels of the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from headgate import api
from headgate.planning.figures import ratio
from headgate.telemetry import Counter, Gauge, Registry

_LABELS: Final = ("variant_name", "namespace", "accelerator_type", "variant_id")


class Figure(NamedTuple):
    """Of one variant."""

    accelerator: str
    variant_id: str
    current: int
    """Replicas that there are."""
    desired: int | None
    """None: nothing was ever planned."""

    @property
    def ratio(self) -> float | None:
        return None if self.desired is None else ratio(self.current, self.desired)


class Figures:
    """What is shown, and how often replicas were changed."""

    def __init__(self, is_leading: Callable[[], bool] = lambda: True) -> None:
        """Gauges are shown while this process leads: two with different values would be added up."""
        self.is_leading = is_leading
        self.shown: dict[api.ObjectKey, Figure] = {}
        self.scalings: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
        self.profiles: dict[api.ObjectKey, Mapping[tuple[str, str], float]] = {}
        """By parameter and source, spec or learned."""
        self.passes = self.failed_passes = 0
        self.seconds = 0.0
        """Of all passes."""

    def count_scaling(self, key: api.ObjectKey, before: int, after: int, reason: str) -> None:
        """The desired replicas of a variant have changed."""
        self.scalings[key.name, key.namespace, "up" if after > before else "down", reason] += 1

    def keep(self, keys: Iterable[api.ObjectKey]) -> None:
        """Forget all others: a series without its object would look like a plan."""
        kept = set(keys)
        self.shown = {key: each for key, each in self.shown.items() if key in kept}
        self.profiles = {key: each for key, each in self.profiles.items() if key in kept}
        places = {(key.name, key.namespace) for key in kept}
        for labels in [each for each in self.scalings if each[:2] not in places]:
            del self.scalings[labels]


def add_figures(registry: Registry, figures: Figures) -> None:
    def of_each(value: Callable[[Figure], float | None]) -> Callable[[], list[tuple[tuple[str, ...], float]]]:
        def read() -> list[tuple[tuple[str, ...], float]]:
            return [
                ((key.name, key.namespace, each.accelerator, each.variant_id), float(known))
                for key, each in figures.shown.items()
                if figures.is_leading() and (known := value(each)) is not None
            ]

        return read

    registry.add(
        Gauge(
            "inferno_desired_replicas",
            "Replicas that a variant should have.",
            _LABELS,
            of_each(lambda each: each.desired),
        ),
        Gauge(
            "inferno_current_replicas",
            "Replicas that a variant has.",
            _LABELS,
            of_each(lambda each: each.current),
        ),
        Gauge(
            "inferno_desired_ratio",
            "Replicas that a variant should have, divided by those that it has; the former if it has none.",
            _LABELS,
            of_each(lambda each: each.ratio),
        ),
        Counter(
            "inferno_replica_scaling",
            "Changes of the replicas that a variant should have.",
            ("variant_name", "namespace", "direction", "reason"),
            lambda: [(labels, float(number)) for labels, number in figures.scalings.items()],
        ),
        Gauge(
            "headgate_controller_planning_profile",
            "Parameters of a variant's profile in milliseconds, from its spec and as learned.",
            ("variant", "namespace", "parameter", "source"),
            lambda: [
                ((key.name, key.namespace, *which), value)
                for key, each in figures.profiles.items()
                for which, value in each.items()
            ],
        ),
        Counter(
            "headgate_controller_planning_passes",
            "Passes over all VariantAutoscalings, by result.",
            ("result",),
            lambda: [
                (("planned",), float(figures.passes)),
                (("failed",), float(figures.failed_passes)),
            ],
        ),
        Counter(
            "headgate_controller_planning_seconds",
            "Time that these passes took, without writes.",
            read=lambda: [((), figures.seconds)],
        ),
    )
