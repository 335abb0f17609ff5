"""/livez, /readyz and /healthz: one word for machines, and a line for each check for people."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headgate.apiserver import builtin
from headgate.apiserver.storage import Key, Store
from headgate.apiserver.watch import Hub

Check = Callable[[], bool]


class Health:
    """The checks of a server. Each endpoint has those that concern it."""

    def __init__(self, store: Store, hub: Hub) -> None:
        def readable() -> bool:
            try:
                return store.get(Key(builtin.NAMESPACE, "", "default")) is not None
            except sqlite3.Error:
                return False

        living: dict[str, Check] = {"ping": lambda: True, "store": readable}
        self._checks: Mapping[str, Mapping[str, Check]] = {
            "healthz": living,
            "livez": living,
            "readyz": {**living, "shutdown": lambda: not hub.closed},
        }

    async def all(self, request: Request) -> Response:
        """`?verbose` lists the checks, `?exclude=NAME` leaves one out."""
        endpoint = request.url.path.strip("/")
        excluded = request.query_params.getlist("exclude")
        passed = {n: check() for n, check in self._checks[endpoint].items() if n not in excluded}
        healthy = all(passed.values())
        if healthy and "verbose" not in request.query_params:
            return PlainTextResponse("ok")
        lines = [f"[+]{n} ok" if ok else f"[-]{n} failed: reason withheld" for n, ok in passed.items()]
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return PlainTextResponse("\n".join(lines) + "\n", 200 if healthy else 500)

    async def one(self, request: Request) -> Response:
        """One check alone, such as /readyz/ping."""
        endpoint = request.url.path.split("/")[1]
        check = self._checks[endpoint].get(request.path_params["check"])
        if check is None:
            return PlainTextResponse("404 page not found\n", 404)
        return PlainTextResponse("ok") if check() else PlainTextResponse("failed: reason withheld\n", 500)
