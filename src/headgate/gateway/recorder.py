"""Accounts for every request once it is settled: metrics and one line of access log.

The children of the metrics are bound once for each model, pool and status, since a lookup by labels
costs more than the sample.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from headgate.telemetry import Counter, Histogram, LineLog, Registry

if TYPE_CHECKING:
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.proxy import PoolState
    from headgate.gateway.refusals import Refusal

UNKNOWN = "unknown"
"""Stands for every model that has no route, so that clients cannot make labels up (R14)."""
NONE = "none"

_Key = tuple[str, str, str, int]
"""Model, route, pool, status."""


class _Bound:
    """The children for one (model, route, pool, status)."""

    __slots__ = ("duration", "first_byte", "input_tokens", "labels_text", "output_tokens", "requests")

    def __init__(self, metrics: Recorder, model: str, route: str, pool: str, status: int) -> None:
        self.requests = metrics.requests.labels(model, route, pool, str(status))
        self.duration = metrics.duration.labels(model, pool)
        self.first_byte = metrics.first_byte.labels(model, pool)
        self.input_tokens = metrics.tokens.labels(model, pool, "input")
        self.output_tokens = metrics.tokens.labels(model, pool, "output")
        self.labels_text = f"{status} model={model} route={route} pool={pool}"


class Recorder:
    """Counts and logs. `log` is None where no access log is wanted."""

    def __init__(self, registry: Registry, log: LineLog | None, log_format: str = "text") -> None:
        self._log = log
        self._line = _json_line if log_format == "json" else _text_line
        self._bound: dict[_Key, _Bound] = {}
        labels = ("model", "pool")
        self.requests = Counter(
            "headgate_gateway_requests", "Requests by their end.", ("model", "route", "pool", "code")
        )
        self.duration = Histogram(
            "headgate_gateway_request_duration_seconds", "From the request's arrival to its end.", labels
        )
        self.first_byte = Histogram(
            "headgate_gateway_time_to_first_token_seconds",
            "From a streamed request's arrival to the first byte of its answer's body.",
            labels,
        )
        self.tokens = Counter(
            "headgate_gateway_tokens", "Tokens that the engines report.", (*labels, "direction")
        )
        self.attempts_failed = Counter(
            "headgate_gateway_attempts_failed",
            "Attempts without an answer, or with 502, 503 or 504.",
            ("pool", "reason"),
        )
        self.retries = Counter(
            "headgate_gateway_retries",
            "Requests to be tried again, by whether the retry budget of their pool granted it.",
            ("pool", "granted"),
        )
        self.ejections = Counter(
            "headgate_gateway_ejections",
            "Endpoints ejected from their pools, by the failure that made it enough.",
            ("pool", "reason"),
        )
        self.rejections = Counter(
            "headgate_gateway_rejected",
            "Connections ended for bytes that are no valid request, or beyond a limit.",
            ("reason",),
        )
        registry.add(
            self.requests,
            self.duration,
            self.first_byte,
            self.tokens,
            self.attempts_failed,
            self.retries,
            self.ejections,
            self.rejections,
        )

    def settled(self, exchange: Exchange, now: float) -> None:
        """Called exactly once for every exchange, whatever happened to it."""
        decision, pool = exchange.decision, exchange.pool
        match = decision.match
        key = (
            decision.model if match is not None else UNKNOWN,
            match.route.name if match is not None else NONE,
            pool.name if pool is not None else NONE,
            exchange.status,
        )
        bound = self._bound.get(key) or self._bind(key)
        arrived = exchange.request.arrived_at
        bound.requests.value += 1
        bound.duration.observe(now - arrived)
        if decision.stream and exchange.first_byte_at:
            bound.first_byte.observe(exchange.first_byte_at - arrived)
        tokens_in = tokens_out = 0
        if exchange.bytes_out and (usage := exchange.tail.usage()) is not None:
            tokens_in, tokens_out = usage.prompt, usage.completion
            bound.input_tokens.value += tokens_in
            bound.output_tokens.value += tokens_out
        if self._log is not None:
            self._log.add(self._line(exchange, key, bound.labels_text, (tokens_in, tokens_out), now))

    def _bind(self, key: _Key) -> _Bound:
        bound = self._bound[key] = _Bound(self, *key)
        return bound

    def unbind(self) -> None:
        """Forgets which metrics belong to which route and pool: objects come and go."""
        self._bound.clear()

    def attempt_failed(self, pool: PoolState, reason: str) -> None:
        self.attempts_failed.labels(pool.name, reason).value += 1

    def retry(self, pool: PoolState, granted: bool) -> None:
        self.retries.labels(pool.name, "yes" if granted else "no").value += 1

    def ejected(self, pool: PoolState, reason: str) -> None:
        self.ejections.labels(pool.name, reason).value += 1

    def rejected(self, refusal: Refusal) -> None:
        self.rejections.labels(refusal.code).value += 1

    def flush(self) -> None:
        if self._log is not None:
            self._log.flush()


class _Clock:
    """The wall clock in RFC 3339 with milliseconds. Texts are made once: of a second, of each fraction, and
    of the moment, which many requests share on a busy gateway.
    """

    def __init__(self) -> None:
        self._second = 0
        self._text = ""
        self._fractions = [f".{millisecond:03d}Z" for millisecond in range(1000)]
        self._moment = ""
        self._stale_at = 0.0

    def at(self, loop_time: float) -> str:
        """The time now; `loop_time` is the loop's, in seconds."""
        if loop_time >= self._stale_at:
            self._stale_at = loop_time + 0.001
            self._moment = self._read()
        return self._moment

    def _read(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return self._text + self._fractions[int((now - second) * 1000)]


_clock = _Clock()


def _text_line(exchange: Exchange, _: _Key, labels_text: str, tokens: tuple[int, int], now: float) -> str:
    request, load = exchange.request, exchange.load
    arrived = request.arrived_at
    first_ms = (exchange.first_byte_at - arrived) * 1e3 if exchange.first_byte_at else 0.0
    return (
        f"{_clock.at(now)} {request.method.decode()} {request.path} {labels_text}"
        f" endpoint={load.endpoint.name if load is not None else NONE}"
        f" outcome={exchange.outcome} attempts={exchange.attempts} tokens={tokens[0]}/{tokens[1]}"
        f" bytes={exchange.bytes_out} first={first_ms:.1f}ms total={(now - arrived) * 1e3:.1f}ms"
        f" id={exchange.request_id.decode()}\n"
    )


def _json_line(exchange: Exchange, key: _Key, _: str, tokens: tuple[int, int], now: float) -> str:
    request, load = exchange.request, exchange.load
    model, route, pool, status = key
    first = exchange.first_byte_at - request.arrived_at if exchange.first_byte_at else None
    line = {
        "timestamp": _clock.at(now),
        "method": request.method.decode("latin-1"),
        "path": request.path,
        "status_code": status,
        "model_name": model,
        "model_route": route,
        "model_server": pool,
        "selected_pod": load.endpoint.name if load is not None else None,
        "outcome": exchange.outcome,
        "upstream_attempts": exchange.attempts,
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "bytes": exchange.bytes_out,
        "duration_first_byte": round(first * 1e3, 3) if first is not None else None,
        "duration_total": round((now - request.arrived_at) * 1e3, 3),
        "request_id": exchange.request_id.decode("latin-1"),
    }
    return msgspec.json.encode(line).decode() + "\n"
