"""Asks a Prometheus server for metrics of a target as a whole.

The metricName of an AutoscalingPolicy is the query: `prometheus:QUERY` for a sum over the target's replicas,
`prometheus-mean:QUERY` for a mean over them. In it, `$namespace` and `$name` are those of the target. A query
that fails, is slow, or does not give exactly one finite number has no value: it is missing.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from headgate import http_clients
from headgate.autoscaling.samples import Total

SUM: Final = "prometheus:"
MEAN: Final = "prometheus-mean:"

QUERY_S: Final = 5.0
"""For the response to one query."""
FRESH_S: Final = 1.0
"""The result of a query counts for this long, for all bindings that have the same one."""
MAX_QUERY_CHARACTERS: Final = 8 * 1024
MAX_RESPONSE_BYTES: Final = 256 * 1024
"""One number has a few hundred; the rest are labels and warnings."""
MAX_OF_ALL: Final = 16
"""Queries at a time."""
MAX_KNOWN: Final = 4096
"""Results and problems that are remembered."""
MAX_PROBLEM_CHARACTERS: Final = 200
MAX_TOKEN_BYTES: Final = 64 * 1024

_VARIABLE: Final = re.compile(r"\$(namespace|name)\b")


def is_query(metric_name: str) -> bool:
    """Whether Prometheus measures the metric."""
    return metric_name.startswith((SUM, MEAN))


class QueryError(Exception):
    """Why a query has no value."""


class _Data(msgspec.Struct, frozen=True):
    resultType: str = ""  # noqa: N815 - Prometheus names it
    result: Any = None


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data = _Data()
    error: str = ""


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
        authorities that may have signed the server's. Raises OSError and ssl.SSLError for `ca_file`."""
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._clock = clock
        self._places = asyncio.Semaphore(MAX_OF_ALL)
        verify = http_clients.verifying(ssl.create_default_context(cafile=ca_file))
        self._client = httpx2.AsyncClient(
            transport=http_clients.transport(verify=verify), timeout=httpx2.Timeout(QUERY_S)
        )
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
        await self._client.aclose()

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
            async with self._places, asyncio.timeout(QUERY_S):
                value: float | QueryError = _number(await self._ask(query))
        except TimeoutError:
            value = QueryError(f"Prometheus did not answer within {QUERY_S:g} s")
        except QueryError as error:
            value = error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            told = str(error)[:MAX_PROBLEM_CHARACTERS] or type(error).__name__
            value = QueryError(f"Prometheus cannot be asked: {told}")
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[query] = (began, value)
        self.queries["failed" if isinstance(value, QueryError) else "read"] += 1
        if isinstance(value, QueryError):
            raise value
        return value

    async def _ask(self, query: str) -> _Answer:
        if len(query) > MAX_QUERY_CHARACTERS:
            raise QueryError(f"the query has more than {MAX_QUERY_CHARACTERS} characters")
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        if self._token_file is not None:
            headers["authorization"] = f"Bearer {_token(self._token_file)}"
        form: Mapping[str, str] = {"query": query, "timeout": f"{QUERY_S:g}s"}
        url = f"{self._url}/api/v1/query"
        async with self._client.stream("POST", url, data=form, headers=headers) as response:
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_RESPONSE_BYTES:
                    raise QueryError(
                        f"the response has more than {MAX_RESPONSE_BYTES} bytes: aggregate to one number"
                    )
        try:
            return msgspec.json.decode(body, type=_Answer)
        except (msgspec.MsgspecError, RecursionError):
            raise QueryError(f"Prometheus answers {response.status_code}, with no result") from None


def query_of(metric_name: str, namespace: str, name: str) -> str:
    """The query in a metric's name, for a target. Names of objects have no characters to be escaped."""
    values = {"namespace": namespace, "name": name}
    query = metric_name.removeprefix(SUM).removeprefix(MEAN)
    return _VARIABLE.sub(lambda found: values[found[1]], query)


def _number(answer: _Answer) -> float:
    """The only number of a response. Raises QueryError."""
    if answer.status != "success":
        told = answer.error[:MAX_PROBLEM_CHARACTERS] or "it does not say why"
        raise QueryError(f"Prometheus rejects the query: {told}")
    kind, result = answer.data.resultType, answer.data.result
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


def _token(file: Path) -> str:
    with file.open("rb") as opened:
        token = opened.read(MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    if not token or not token.isprintable():
        raise QueryError(f"{file} has no valid token")
    return token
