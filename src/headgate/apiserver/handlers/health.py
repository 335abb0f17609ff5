"""/livez, /readyz and /healthz: one word for machines, or one line for each check for people."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headgate.apiserver import builtin
from headgate.apiserver.calls import Shared
from headgate.apiserver.storage import Key, Store
from headgate.apiserver.watch import Hub

Check = Callable[[], str | None]
"""The reason for a failure; None if the check passes."""

_WITHHELD = "reason withheld"


class Health:
    """The checks of a server. Each endpoint has those relevant to it."""

    def __init__(self, store: Store, hub: Hub) -> None:
        def readable() -> str | None:
            try:
                return None if store.get(Key(builtin.NAMESPACE, "", "default")) else _WITHHELD
            except sqlite3.Error:
                return _WITHHELD

        living: dict[str, Check] = {"ping": lambda: None, "store": readable}
        self._checks: Mapping[str, Mapping[str, Check]] = {
            "healthz": living,
            "livez": living,
            "readyz": {
                **living,
                "writes": store.write_failure,
                "shutdown": lambda: _WITHHELD if hub.closed else None,
            },
        }

    async def all(self, request: Request) -> Response:
        """`?verbose` lists the checks, `?exclude=NAME` skips one."""
        endpoint = request.url.path.strip("/")
        excluded = request.query_params.getlist("exclude")
        failures = {n: check() for n, check in self._checks[endpoint].items() if n not in excluded}
        healthy = not any(failures.values())
        if healthy and "verbose" not in request.query_params:
            return PlainTextResponse("ok")
        lines = [f"[-]{n} failed: {why}" if why else f"[+]{n} ok" for n, why in failures.items()]
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return PlainTextResponse("\n".join(lines) + "\n", 200 if healthy else 500)

    async def one(self, request: Request) -> Response:
        """A single check, such as /readyz/ping."""
        endpoint = request.url.path.split("/")[1]
        check = self._checks[endpoint].get(request.path_params["check"])
        if check is None:
            return PlainTextResponse("404 page not found\n", 404)
        return PlainTextResponse(f"failed: {why}\n", 500) if (why := check()) else PlainTextResponse("ok")


# /metrics: shared limits, rejections and store size, in Prometheus text format.
_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Samples = Mapping[tuple[str, ...], int]
"""Values by label values."""


@dataclass(frozen=True)
class Family:
    """One metric of the page."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...]

    def lines(self, samples: Samples) -> Iterable[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for key, value in sorted(samples.items()):
            # User names only have letters, digits, '-' and '.', so escaping is not needed.
            pairs = ",".join(f'{label}="{part}"' for label, part in zip(self.labels, key, strict=True))
            yield f"{self.name}{{{pairs}}} {value}"


_PREFIX = "headgate_apiserver"
HELD = Family(f"{_PREFIX}_held", "gauge", "Amount of each shared limit that users hold.", ("what", "user"))
LIMIT = Family(f"{_PREFIX}_limit", "gauge", "Shared limits: how much all users together may hold.", ("what",))
WAITING = Family(f"{_PREFIX}_waiting_requests", "gauge", "Requests waiting for their turn.", ("user",))
REJECTED = Family(
    f"{_PREFIX}_rejected_total",
    "counter",
    "Rejected requests and watches, and closed connections.",
    ("reason",),
)
ERRORS = Family(
    f"{_PREFIX}_errors_total",
    "counter",
    "Responses with a status of 400 or higher, and watches that ended with an error (410: Expired).",
    ("code",),
)
STORE = Family(
    f"{_PREFIX}_store",
    "gauge",
    "The store: objects, their bytes, revision, commits and writes since the start.",
    ("what",),
)
FAMILIES = (HELD, LIMIT, WAITING, REJECTED, ERRORS, STORE)


@dataclass(frozen=True)
class Metrics:
    """The metrics page, generated on request."""

    store: Store
    shared: Shared

    async def page(self, request: Request) -> Response:
        lines = [line for family, samples in self._samples().items() for line in family.lines(samples)]
        return PlainTextResponse("\n".join(lines) + "\n", media_type=_TYPE)

    def _samples(self) -> Mapping[Family, Samples]:
        shares = self.shared.shares()
        totals = {what: share.total for what, share in shares.items()}
        totals["requests"] = self.shared.turns.most
        return {
            HELD: {(what, user): n for what, share in shares.items() for user, n in share.by_user().items()},
            LIMIT: {(what,): total for what, total in totals.items()},
            WAITING: {(user,): n for user, n in self.shared.turns.by_user().items()},
            REJECTED: {(reason,): n for reason, n in self.shared.rejected.items()},
            ERRORS: {(str(code),): n for code, n in self.shared.errors.items()},
            STORE: {(name,): n for name, n in self.store.statistics().items()},
        }
