"""What a page is made of: readings go in, series come out."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from headgate.simulator.model import EngineConfig, EngineStatistics
from headgate.simulator.server.metrics.histogram import Histogram
from headgate.simulator.server.metrics.timings import Timings


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One data-parallel rank at the moment of a scrape."""

    rank: int
    config: EngineConfig
    statistics: EngineStatistics
    timings: Timings
    model_name: str
    role: str = "both"
    running_adapters: tuple[str, ...] = ()
    waiting_adapters: tuple[str, ...] = ()
    adapters_changed_unix_s: float = 0.0
    """When these two lists last changed."""
    asleep: bool = False
    transfers: Mapping[str, int] = {}
    """What was seen of prefill/decode pairs."""


class Series(NamedTuple):
    """One value or histogram of one set of labels. Counters are named without `_total`."""

    kind: Literal["gauge", "counter", "histogram"]
    name: str
    documentation: str
    labels: dict[str, str]
    value: float | Histogram


def gauge(name: str, documentation: str, value: float, **labels: str) -> Series:
    return Series("gauge", name, documentation, labels, value)


def counter(name: str, documentation: str, value: float, **labels: str) -> Series:
    return Series("counter", name, documentation, labels, value)


def histogram(name: str, documentation: str, value: Histogram) -> Series:
    return Series("histogram", name, documentation, {}, value)
