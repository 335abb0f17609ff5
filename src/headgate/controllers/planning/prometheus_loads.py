"""Loads as a Prometheus server has them from vLLM's metrics, for clusters whose requests pass other gateways.

Arrivals are completions and the growth of what runs and waits, so that they are not limited to what is
served. They are means over the shortest time in which each engine was scraped twice, so that a step shows
early; times and lengths are means over the last minute.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headgate.controllers.prometheus_client import Data, PrometheusClient, QueryError
from headgate.planning import lengths
from headgate.planning.config_maps import promql_range
from headgate.planning.load import METRICS_MISSING, METRICS_STALE, PROMETHEUS_ERROR, Load, Missing
from headgate.planning.settings_map import PrometheusSettings

__all__ = ["STALE_S", "WINDOW_S", "PrometheusLoads"]

WINDOW_S: Final = 60.0
"""Rates are over this time, or less for arrivals."""
SHORTEST_WINDOW_S: Final = 15.0
_WINDOW_STEP_S: Final = 5.0
_SCRAPES: Final = 2.2
"""So many intervals between scrapes hold two samples, wherever they begin."""
_LATE: Final = 1.1
"""Share of their interval after which scrapes come at the latest."""
_MISSED: Final = 2
"""So many intervals may be between the last scrape and now where a minute counts."""
_INTERVALS_S: Final = (30.0, 120.0)
"""Over these times, samples are counted to find out how often engines are scraped."""
STALE_S: Final = 300.0
"""Samples that are older do not count."""
FRESH_S: Final = 5.0
"""A load counts for this long, for all that ask for the same model and namespace."""
MAX_KNOWN: Final = 4096
"""Models with a namespace."""
MAX_NAME: Final = 1024
_MOST: Final = 1e9
"""Larger amounts are taken for this."""
_SUCCESS, _RUNNING, _WAITING = (
    "vllm:request_success_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
)

_CACHES: Final = ("vllm:prefix_cache", "vllm:gpu_prefix_cache")
"""Newer and older names of their counters; also below, where there are two."""


class _Window(NamedTuple):
    at: float
    seconds: float
    interval_s: float = WINDOW_S
    """Between two scrapes, at most; without those that failed."""
    is_sure: bool = False
    """Whether all counts of samples tell the same."""


class _Asked(NamedTuple):
    at: float
    task: asyncio.Task[Load | Missing]


class PrometheusLoads:
    """A collector, for one server. Each load is asked for once at a time."""

    def __init__(self, settings: PrometheusSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = PrometheusClient(settings)
        self._clock = clock
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._windows: dict[tuple[str, str], _Window] = {}
        self._is_closed = False
        self.collected = {"read": 0, "missing": 0}
        """So far, for metrics."""

    async def collect(self, model: str, namespace: str) -> Load | Missing:
        """The load of a model in a namespace, as engines there have it."""
        key, now = (model, namespace), self._clock()
        asked = self._asked.get(key)
        if asked is None or (asked.task.done() and now - asked.at >= FRESH_S):
            if len(self._asked) >= MAX_KNOWN:
                self._asked = {each: old for each, old in self._asked.items() if not old.task.done()}
            task = asyncio.create_task(self._collect(model, namespace))
            asked = self._asked[key] = _Asked(now, task)
        try:
            return await asyncio.shield(asked.task)
        except asyncio.CancelledError:
            if self._is_closed and asked.task.cancelled():
                return Missing(PROMETHEUS_ERROR, "another server is asked from now on")
            raise

    def window_s(self, model: str, namespace: str) -> float:
        """The time over which arrivals of the last load are a mean."""
        known = self._windows.get((model, namespace))
        return WINDOW_S if known is None else known.seconds

    async def requests_over(self, model: str, namespace: str, seconds: float) -> float | Missing:
        """About how many requests there were lately, for scaling to zero."""
        try:
            selector = await self._selector(model, namespace)
            if isinstance(selector, Missing):
                return selector
            found = _number(await self._client.ask(_requests_over(selector, promql_range(seconds))))
        except QueryError as error:
            return Missing(PROMETHEUS_ERROR, str(error))
        return Missing(METRICS_MISSING, _few(model, namespace)) if found is None else _amount(found)

    async def close(self) -> None:
        self._is_closed = True
        tasks = [asked.task for asked in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _collect(self, model: str, namespace: str) -> Load | Missing:
        try:
            selector = await self._selector(model, namespace)
            found = (
                selector if isinstance(selector, Missing) else await self._load(model, namespace, selector)
            )
        except QueryError as error:
            found = Missing(PROMETHEUS_ERROR, str(error))
        self.collected["missing" if isinstance(found, Missing) else "read"] += 1
        return found

    async def _selector(self, model: str, namespace: str) -> str | Missing:
        """The labels of the series; the namespace is empty where no engine of the model has that label."""
        if len(model) > MAX_NAME or len(namespace) > MAX_NAME:
            return Missing(METRICS_MISSING, f"a name has more than {MAX_NAME} characters")
        selectors = [_labels(model, each) for each in (namespace, "")]
        for selector in selectors:
            newest = f"timestamp({_SUCCESS}{selector}) or timestamp({_RUNNING}{selector})"
            age_s = _number(await self._client.ask(f"time() - max({newest})"))
            if age_s is not None and age_s <= STALE_S:
                return selector
        for selector in selectors:
            newest = f"max_over_time(timestamp({_SUCCESS}{selector})[1h:1m])"
            age_s = _number(await self._client.ask(f"time() - max({newest})"))
            if age_s is not None:
                told = f"the last sample of {_SUCCESS}{selector} is {age_s:.0f} s old"
                return Missing(METRICS_STALE, f"{told}: check that Prometheus scrapes the engines")
        told = f"Prometheus has no {_SUCCESS}{selectors[0]}, nor without a namespace"
        return Missing(METRICS_MISSING, f"{told}: check that it scrapes the engines, and the modelID")

    async def _load(self, model: str, namespace: str, selector: str) -> Load | Missing:
        queries = _queries(selector, await self._window(model, namespace, selector))
        async with asyncio.TaskGroup() as tasks:
            asked = {name: tasks.create_task(self._value(query)) for name, query in queries.items()}
        values = {name: task.result() for name, task in asked.items()}
        for name in ("arrivals", "prompt", "output"):
            value = values[name]
            if isinstance(value, QueryError):
                raise value
        arrivals = values["arrivals"]
        if arrivals is None:
            return Missing(METRICS_STALE, _few(model, namespace))
        if isinstance(arrivals, QueryError) or not math.isfinite(arrivals):
            return Missing(PROMETHEUS_ERROR, f"{queries['arrivals']} gives no finite number")
        amounts = {
            name: 0.0 if value is None or isinstance(value, QueryError) else _amount(value)
            for name, value in values.items()
        }
        return Load(
            arrivals_per_s=_amount(arrivals),
            prompt_tokens=amounts["prompt"],
            output_tokens=amounts["output"],
            cached_share=min(amounts["cached"], 1.0),
            prompt_spread=lengths.spread_of(amounts["high"] / max(amounts["prompt"], 1.0)),
            waiting=round(amounts["waiting"]),
            ttft_ms=amounts["ttft"] * 1000.0,
            itl_ms=amounts["itl"] * 1000.0,
        )

    async def _window(self, model: str, namespace: str, selector: str) -> _Window:
        """It is found out once a minute. Raises QueryError."""
        key, now = (model, namespace), self._clock()
        known = self._windows.get(key)
        if known is None or now - known.at >= (WINDOW_S if known.is_sure else FRESH_S):
            counts = {}
            for time_s in _INTERVALS_S:
                lately = promql_range(time_s)
                counted = f"count_over_time({_RUNNING}{selector}[{lately}])"
                counts[time_s] = _number(
                    await self._client.ask(f"max(max_over_time({counted}[10m:{lately}]))")
                )
            if len(self._windows) >= MAX_KNOWN:
                self._windows.clear()
            known = self._windows[key] = _window_of(counts, now)
        return known

    async def _value(self, query: str) -> float | QueryError | None:
        try:
            return _number(await self._client.ask(query))
        except QueryError as error:
            return error


def _labels(model: str, namespace: str) -> str:
    return f'{{model_name="{_escaped(model)}",namespace="{_escaped(namespace)}"}}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _few(model: str, namespace: str) -> str:
    return (
        f"Prometheus has not scraped {model} in {namespace} long enough, or not often enough, for a rate: "
        "that takes a minute at most, if it scrapes the engines every 30 s or more often"
    )


def _window_of(counts: Mapping[float, float | None], now: float) -> _Window:
    """By the number of samples of the engine that has most, within each of `_INTERVALS_S`."""
    known = [(time_s, samples) for time_s, samples in counts.items() if samples is not None and samples > 1]
    if not known:
        return _Window(now, WINDOW_S)
    mean_s = min(time_s / samples for time_s, samples in known)
    wanted_s = math.ceil(_SCRAPES * mean_s / _WINDOW_STEP_S) * _WINDOW_STEP_S
    longest_s = _LATE * min(time_s / (samples - 1) for time_s, samples in known)
    is_sure = len(known) == len(counts) and max(time_s / samples for time_s, samples in known) < 2 * mean_s
    seconds = min(max(wanted_s, SHORTEST_WINDOW_S), WINDOW_S)
    return _Window(now, seconds, min(longest_s, WINDOW_S), is_sure)


def _arrivals(selector: str, window_s: float) -> str:
    lately = promql_range(window_s)

    def growth(name: str) -> str:
        return f"(sum(delta({name}{selector}[{lately}])) / {window_s:g} or vector(0))"

    none = f"0 * sum(delta({_RUNNING}{selector}[{lately}]))"
    # Without a completion so far, there may be no series of them.
    completed = f"(sum(rate({_SUCCESS}{selector}[{lately}])) or {none})"
    return f"{completed} + {growth(_RUNNING)} + {growth(_WAITING)}"


def _is_covered(selector: str, window: _Window, seconds: float) -> str:
    """Whether an engine was scraped during all of so many seconds. If not, as after a restart of Prometheus,
    all rates over them are too low."""
    soon = promql_range(max(seconds - window.interval_s, 1.0))
    late_s = window.interval_s * (1 if seconds < WINDOW_S else _MISSED)
    parts = [
        f"(max(timestamp({_RUNNING}{selector} offset {soon})) >= time() - {seconds:g})",
        f"(max(timestamp({_RUNNING}{selector})) >= time() - {late_s:g})",
        # With few samples so far, the interval is not known either.
        f"count({_RUNNING}{selector} offset {promql_range(seconds)})",
    ]
    return " and ".join(parts)


def _early_arrivals(selector: str, window: _Window) -> str:
    """Within a shorter time, if that has two samples of each engine: a scrape may have failed."""
    window_s = window.seconds
    whole = f"({_arrivals(selector, WINDOW_S)}) and {_is_covered(selector, window, WINDOW_S)}"
    if window_s >= WINDOW_S:
        return whole
    engines = [f"count(delta({_RUNNING}{selector}[{promql_range(each)}]))" for each in (window_s, WINDOW_S)]
    is_known = f"{_is_covered(selector, window, window_s)} and ({' >= '.join(engines)})"
    return f"(({_arrivals(selector, window_s)}) and {is_known}) or ({whole})"


def _queries(selector: str, window: _Window) -> dict[str, str]:
    """By what they give."""

    def rate(name: str) -> str:
        return f"sum(rate({name}{selector}[1m]))"

    def mean(name: str) -> str:
        return f"{rate(name + '_sum')} / {rate(name + '_count')}"

    cached = [f"{rate(each + '_hits_total')} / {rate(each + '_queries_total')}" for each in _CACHES]
    return {
        "arrivals": _early_arrivals(selector, window),
        "prompt": mean("vllm:request_prompt_tokens"),
        "high": f"histogram_quantile({lengths.HIGH:g}, sum by (le) "
        f"(rate(vllm:request_prompt_tokens_bucket{selector}[1m])))",
        "output": mean("vllm:request_generation_tokens"),
        "ttft": mean("vllm:time_to_first_token_seconds"),
        "itl": f"{mean('vllm:time_per_output_token_seconds')} or {mean('vllm:inter_token_latency_seconds')}",
        "cached": " or ".join(cached),
        "waiting": f"sum({_WAITING}{selector})",
    }


def _requests_over(selector: str, lately: str) -> str:
    """Those that ended, with what series that are younger began with, and those that have not ended."""
    completed = f"{_SUCCESS}{selector}"
    sums = [
        f"sum(increase({completed}[{lately}]))",
        f"sum({completed} unless {completed} offset {lately})",
        f"sum({_RUNNING}{selector})",
        f"sum({_WAITING}{selector})",
    ]
    return " + ".join(f"({each} or vector(0))" for each in sums)


def _number(data: Data) -> float | None:
    """The only number of a result, which may be NaN; None if there is none. Raises QueryError."""
    if data.resultType != "vector" or not isinstance(data.result, list):
        raise QueryError(f"Prometheus gives a {data.resultType[:32] or 'result of no type'}, not a vector")
    if not data.result:
        return None
    first = data.result[0]
    sample = first.get("value") if isinstance(first, dict) else None
    if len(data.result) > 1 or not isinstance(sample, list) or len(sample) != 2:
        raise QueryError(
            f"Prometheus gives {len(data.result)} series, or none that can be read, not one number"
        )
    try:
        return float(sample[1])
    except (TypeError, ValueError, OverflowError):
        raise QueryError(f"Prometheus gives {str(sample[1])[:32]!r}, not a number") from None


def _amount(value: float) -> float:
    """Between 0 and the most; 0 for what is no number or infinite."""
    return min(max(value, 0.0), _MOST) if math.isfinite(value) else 0.0
