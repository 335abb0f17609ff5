"""Affinity by labels: to the value of a header, to the length of a prompt, to the location of a peer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.plugins.parameters import HeaderName, Producer
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads, Scorer
from headgate.scheduling.request import Request

Name = Annotated[str, msgspec.Meta(min_length=1)]


class HeaderLabelParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    header_name: HeaderName
    label_key: Name
    stamp_response_header: bool = True


class HeaderLabelAffinityScorer(Scorer):
    """1 where the Pod's label has the value of the request's header, else 0; 0 for all without the header.

    By default, the response gets the header with the label of the picked endpoint.
    """

    kind = "header-label-affinity-scorer"
    Parameters = HeaderLabelParameters
    alpha = True

    def __init__(self, parameters: HeaderLabelParameters) -> None:
        super().__init__()
        self._label = parameters.label_key
        self._header = parameters.header_name.lower().encode()
        self._stamps = parameters.stamp_response_header

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        wanted, label = cycle.request.header(self._header), self._label
        if not wanted:
            return [0.0] * len(loads)
        return [float(load.labels.get(label) == wanted) for load in loads]

    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None:
        value = load.labels.get(self._label) if self._stamps else None
        return (self._header, value.encode()) if value else None


_RANGE = re.compile(r"\s*(\d{1,12})\s*-\s*(\d{1,12})\s*")
_MAX_OUTSIDE = 0.3


class ContextLengthParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    label: Name = "llm-d.ai/context-length-range"
    enable_filtering: bool = False


class ContextLengthAware(Scorer, Filter):
    """Prefers endpoints whose label is a range of tokens, "lo-hi", that contains the prompt.

    Inside, with w the range's width and h the distance from the prompt to its upper end: 0.3 + 0.7 x (0.7 /
    (1 + w/10000) + 0.3 x h/w), 1 if w is 0. Outside, at distance d: 0.3 / (1 + d/1000). Without the label
    0.5; with an invalid one 0. With `enableFiltering`, only endpoints inside, and those without the label,
    are kept.
    """

    kind = "context-length-aware"
    Parameters = ContextLengthParameters

    def __init__(self, parameters: ContextLengthParameters | None = None) -> None:
        super().__init__()
        said = parameters or ContextLengthParameters()
        self._label, self._filters = said.label, said.enable_filtering

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        if not self._filters:
            return loads
        tokens = cycle.request.prompt_tokens
        return [load for load in loads if self._takes(load, tokens)]

    def _takes(self, load: EndpointState, tokens: int) -> bool:
        text = load.labels.get(self._label)
        if text is None:
            return True
        bounds = _bounds(text)
        return bounds is not None and bounds[0] <= tokens <= bounds[1]

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        tokens, label = cycle.request.prompt_tokens, self._label
        return [_range_score(load.labels.get(label), tokens) for load in loads]


def _bounds(text: str) -> tuple[int, int] | None:
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    least, most = int(found[1]), int(found[2])
    return (least, most) if least <= most else None


def _range_score(text: str | None, tokens: int) -> float:
    if text is None:
        return 0.5
    bounds = _bounds(text)
    if bounds is None:
        return 0.0
    least, most = bounds
    if not least <= tokens <= most:
        distance = tokens - most if tokens > most else least - tokens
        return _MAX_OUTSIDE / (1.0 + distance / 1000)
    width = most - least
    if not width:
        return 1.0
    fit = 0.7 / (1.0 + width / 10_000) + 0.3 * (most - tokens) / width
    return _MAX_OUTSIDE + (1.0 - _MAX_OUTSIDE) * fit


Level = Literal["host", "rack", "zone", "region"]
_LEVELS: tuple[tuple[Level, str, float], ...] = (
    ("host", "kubernetes.io/hostname", 1.0),
    ("rack", "topology.kubernetes.io/rack", 0.2),
    ("zone", "topology.kubernetes.io/zone", 0.05),
    ("region", "topology.kubernetes.io/region", 0.02),
)
"""From near to far: the Pod label, and the score for having the same value."""


def _nearest(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    """The index of the nearest level that two Pods share; past the last if there is none."""
    for place, (_, label, _) in enumerate(_LEVELS):
        value = one.get(label)
        if value and value == other.get(label):
            return place
    return len(_LEVELS)


class TopologyScorerParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topology_producer_name: Producer = ""


class TopologyAffinityScorer(Scorer):
    """Scores by what an endpoint shares with the one that another profile has picked: host 1, rack 0.2, zone
    0.05, region 0.02, else 0; 0 for all without such a pick."""

    kind = "topology-affinity-scorer"
    Parameters = TopologyScorerParameters
    alpha = True

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        if cycle.peer is None:
            return [0.0] * len(loads)
        worth = [*(level[2] for level in _LEVELS), 0.0]
        return [worth[_nearest(load.labels, cycle.peer.labels)] for load in loads]


class TopologyFilterParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topology_producer_name: Producer = ""
    min_affinity: Level = "host"


class TopologyAffinityFilter(Filter):
    """Keeps endpoints that share at least `minAffinity` with the one that another profile has picked; all of
    them without such a pick, or if none is so near."""

    kind = "topology-affinity-filter"
    Parameters = TopologyFilterParameters
    alpha = True

    def __init__(self, parameters: TopologyFilterParameters | None = None) -> None:
        super().__init__()
        wanted = (parameters or TopologyFilterParameters()).min_affinity
        self._farthest = [name for name, _, _ in _LEVELS].index(wanted)

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        if cycle.peer is None:
            return loads
        peer = cycle.peer.labels
        return [load for load in loads if _nearest(load.labels, peer) <= self._farthest] or loads
