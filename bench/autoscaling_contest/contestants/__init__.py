"""The published autoscalers, by name, from their formulas and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from autoscaling_contest.calibration import Calibration
from autoscaling_contest.contestants import dynamo, hpa, knative, kthena, wva
from headgate.simulator.autoscaling import Controller, Setting

Make = Callable[[], Controller]
NAMES = (
    "hpa utilisation",
    "hpa queue",
    "hpa concurrency (measured)",
    "keda",
    "knative",
    "knative (measured)",
    "kthena",
    "aibrix apa",
    "aibrix apa (measured)",
    "aibrix kpa (measured)",
    "dynamo",
    "dynamo 60 s",
    "wva queueing",
    "wva v1",
    "wva v2",
)


def published(setting: Setting, calibration: Calibration) -> Mapping[str, Make]:
    """Those that are measured have a target of what a replica sustained, the others their usual defaults."""
    concurrency = calibration.concurrency
    return {
        "hpa utilisation": hpa.on_utilisation,
        "hpa queue": hpa.on_queue,
        "hpa concurrency (measured)": partial(hpa.on_concurrency, concurrency),
        "keda": hpa.keda,
        "knative": partial(knative.Kpa, knative.DEFAULT_CONCURRENCY * knative.TARGET_SHARE),
        "knative (measured)": partial(knative.Kpa, concurrency * knative.TARGET_SHARE),
        "kthena": kthena.Kthena,
        "aibrix apa": partial(knative.Apa, hpa.kv_usage, 0.5),
        "aibrix apa (measured)": partial(knative.Apa, knative.concurrency, concurrency),
        "aibrix kpa (measured)": partial(
            knative.Kpa, concurrency, period_s=10.0, stable_s=180.0, panic_s=60.0
        ),
        "dynamo": partial(dynamo.Planner, setting.engine, calibration, interval_s=180.0, has_trend=True),
        "dynamo 60 s": partial(dynamo.Planner, setting.engine, calibration, interval_s=60.0, has_trend=True),
        "wva queueing": partial(wva.Queueing, setting.engine, setting.slo),
        "wva v1": wva.Percentages,
        "wva v2": partial(wva.Tokens, setting.engine),
    }
