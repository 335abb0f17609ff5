"""/livez, /readyz and /healthz: one word for machines, and a line for each check for people."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headgate.apiserver import builtin
from headgate.apiserver.storage import Key, Store
from headgate.apiserver.watch import Hub

Check = Callable[[], str | None]
"""Why it fails; None if it does not."""

_WITHHELD = "reason withheld"


class Health:
    """The checks of a server. Each endpoint has those that concern it."""

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
        """`?verbose` lists the checks, `?exclude=NAME` leaves one out."""
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
        """One check alone, such as /readyz/ping."""
        endpoint = request.url.path.split("/")[1]
        check = self._checks[endpoint].get(request.path_params["check"])
        if check is None:
            return PlainTextResponse("404 page not found\n", 404)
        return PlainTextResponse(f"failed: {why}\n", 500) if (why := check()) else PlainTextResponse("ok")
