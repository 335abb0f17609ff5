"""Why metrics of a binding could not be measured. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Final

from headgate.api.signal_names import METRICS, PREFIX
from headgate.autoscaling import PodSample
from headgate.controllers.autoscaling.observing import is_signal
from headgate.controllers.autoscaling.prometheus import is_query

_WHEN_ABSENT: Final = {
    "headgate:kv_usage": "no engine reports it",
    "headgate:slo_misses": "no request with an objective ended in the last 15 s",
    "headgate:ttft_seconds": "no streamed request ended in the last 15 s",
    "headgate:itl_seconds": "no streamed request ended in the last 15 s",
}
"""Why a signal may be missing although every gateway tells."""


def reasons(
    metrics: Sequence[str], pods: Sequence[PodSample], problems: Sequence[str], of_signals: Sequence[str]
) -> Iterator[str]:
    """What explains that these metrics have no value.

    `problems` tells which Pods and queries could not be read, `of_signals` why signals of gateways are not
    known.
    """
    signals = [each for each in metrics if is_signal(each)]
    yield from filter(None, map(_of_signal, signals))
    yield from problems
    if any(each in METRICS for each in signals):
        yield from of_signals
        if not of_signals:
            yield from (f"{each}: {_WHEN_ABSENT[each]}" for each in signals if each in _WHEN_ABSENT)
    of_pods = [each for each in metrics if not is_signal(each) and not is_query(each)]
    if of_pods:
        yield from _of_pods(of_pods, pods, bool(problems))


def _of_signal(name: str) -> str:
    if name in METRICS:
        return ""
    known = [each.removeprefix(PREFIX) for each in METRICS]
    near = difflib.get_close_matches(name.removeprefix(PREFIX), known, n=1)
    hint = f"did you mean {PREFIX}{near[0]}?" if near else f"there are {', '.join(METRICS)}"
    return f"gateways have no signal {name[:64]!r}; {hint}"


def _of_pods(metrics: Sequence[str], pods: Sequence[PodSample], is_explained: bool) -> Iterator[str]:
    ready = sum(pod.is_ready for pod in pods)
    if not ready:
        yield "no Pod is ready" if pods else "there are no Pods"
    elif not is_explained:
        pages = "the page of the only ready Pod does" if ready == 1 else f"the pages of {ready} ready Pods do"
        yield f"{pages} not have {' or '.join(metrics)}; a rate is known after two readings"
