"""Asks a Prometheus server for metrics of a target as a whole.

The metricName of an AutoscalingPolicy is the query: `prometheus:QUERY` for a sum over the target's replicas,
`prometheus-mean:QUERY` for a mean over them. In it, `$namespace` and `$name` are those of the target. A query
that fails, is slow, or does not give exactly one finite number has no value: it is missing.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from headgate.autoscaling.samples import Total
from headgate.controllers.prometheus_client import Data, PrometheusClient, QueryError
from headgate.planning.settings_map import PrometheusSettings

SUM: Final = "prometheus:"
MEAN: Final = "prometheus-mean:"

FRESH_S: Final = 1.0
"""The result of a query counts for this long, for all bindings that have the same one."""
MAX_KNOWN: Final = 4096
"""Results and problems that are remembered."""

_VARIABLE: Final = re.compile(r"\$(namespace|name)\b")


def is_query(metric_name: str) -> bool:
    """Whether Prometheus measures the metric."""
    return metric_name.startswith((SUM, MEAN))


class Prometheus:
    """One server, which `close` disconnects from."""

    def __init__(
        self,
        url: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`token_file` has the bearer token, and is read for each query; `ca_file` the certificates of the
        authorities that may have signed the server's. Raises OSError for `ca_file`."""
        self._clock = clock
        self._client = PrometheusClient(
            PrometheusSettings(
                url=url.rstrip("/"),
                ca_path=str(ca_file or ""),
                token_path=str(token_file or ""),
            )
        )
        self._client.connect()
        self._known: dict[str, tuple[float, float | QueryError]] = {}
        """The last result of each query, and when it was asked for."""
        self._asked: dict[str, asyncio.Task[float]] = {}
        self.queries = {"read": 0, "failed": 0}
        """So far, for metrics."""

    async def totals(
        self, metric_names: Iterable[str], namespace: str, name: str, deadline_s: float
    ) -> dict[str, Total]:
        """The values of the queries among these metrics, for one target, as far as they came within
        `deadline_s` seconds."""
        wanted = {each: query_of(each, namespace, name) for each in metric_names if is_query(each)}
        tasks = {query: asyncio.create_task(self._value(query)) for query in set(wanted.values())}
        if tasks:
            _, late = await asyncio.wait(tasks.values(), timeout=deadline_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        found: dict[str, Total] = {}
        for metric, query in wanted.items():
            task = tasks[query]
            if not task.cancelled() and task.exception() is None:
                found[metric] = Total(task.result(), is_ratio=metric.startswith(MEAN))
        return found

    def problem(self, metric_name: str, namespace: str, name: str) -> str:
        """Why a query had no value the last time; empty if it had one, or was not asked yet."""
        known = self._known.get(query_of(metric_name, namespace, name))
        return str(known[1]) if known is not None and isinstance(known[1], QueryError) else ""

    async def close(self) -> None:
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._client.close()

    async def _value(self, query: str) -> float:
        """The result of a query, which is asked for once at a time. Raises QueryError."""
        known = self._known.get(query)
        if known is not None and self._clock() - known[0] < FRESH_S:
            if isinstance(known[1], QueryError):
                raise known[1]
            return known[1]
        task = self._asked.get(query)
        if task is None:
            task = self._asked[query] = asyncio.create_task(self._ask_once(query))
            task.add_done_callback(lambda done: self._done(query, done))
        return await asyncio.shield(task)

    def _done(self, query: str, task: asyncio.Task[float]) -> None:
        self._asked.pop(query, None)
        if not task.cancelled():
            task.exception()  # it was handed on, or nobody waits any more

    async def _ask_once(self, query: str) -> float:
        began = self._clock()
        try:
            value: float | QueryError = _number(await self._client.ask(query))
        except QueryError as error:
            value = error
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[query] = (began, value)
        self.queries["failed" if isinstance(value, QueryError) else "read"] += 1
        if isinstance(value, QueryError):
            raise value
        return value


def query_of(metric_name: str, namespace: str, name: str) -> str:
    """The query in a metric's name, for a target. Names of objects have no characters to be escaped."""
    values = {"namespace": namespace, "name": name}
    query = metric_name.removeprefix(SUM).removeprefix(MEAN)
    return _VARIABLE.sub(lambda found: values[found[1]], query)


def _number(data: Data) -> float:
    """The only number of a result. Raises QueryError."""
    kind, result = data.resultType, data.result
    if kind == "vector" and isinstance(result, list):
        if len(result) != 1:
            raise QueryError(f"the query gives {len(result)} series, not one")
        sample = result[0].get("value") if isinstance(result[0], dict) else None
    elif kind == "scalar":
        sample = result
    else:
        raise QueryError(f"the query gives a {kind[:32] or 'result of no type'}, not a number")
    try:
        value = float(sample[1]) if isinstance(sample, list) and len(sample) == 2 else math.nan
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise QueryError("the query gives no finite number")
    return value
