"""An API server behind its kubeconfig: requests, several at once, and watches read when one likes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import urllib3
from kubernetes import config

TIMEOUT_S = 60.0
JSON = "application/json"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Request(NamedTuple):
    """What to ask."""

    method: str
    path: str
    body: Any = None
    media: str = JSON
    query: dict[str, str] = {}


class Answer(NamedTuple):
    """Status and decoded body."""

    code: int
    body: Any

    @property
    def version(self) -> int:
        return int(self.body["metadata"]["resourceVersion"])

    @property
    def refusal(self) -> tuple[int, str]:
        return self.code, self.body.get("reason", "")


class Watching:
    """An open watch; its events wait in the socket until they are read."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._chunks = response.stream(amt=None, decode_content=True)
        self._rest = b""

    def event(self) -> Any:
        """The next event; waits for it, and fails when the server ends the watch instead."""
        while b"\n" not in self._rest:
            chunk = next(self._chunks, None)
            assert chunk is not None, "the watch ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        self._response.close()


class ApiServer:
    """Asks over a few connections that stay open; close it after use."""

    def __init__(self, kubeconfig: Path, at_once: int = 4) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))
        settings = self._api.configuration.auth_settings().values()
        self._headers: dict[str, str] = {each["key"]: each["value"] for each in settings}
        self._pool: urllib3.PoolManager = self._api.rest_client.pool_manager
        self._threads = ThreadPoolExecutor(at_once)

    def ask(self, method: str, path: str, body: Any = None, media: str = JSON, **query: str) -> Answer:
        """One request and its answer."""
        return self._ask(Request(method, path, body, media, query))

    def all(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers to requests that are made at once."""
        return list(self._threads.map(self._ask, requests))

    def watch(self, path: str, **query: str) -> Watching:
        """A watch; 200 is its only answer, and what else there is to say comes as an event."""
        response = self._pool.request(
            "GET", self._url(path, {"watch": "true", **query}), headers=self._headers, preload_content=False,
            retries=False, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert response.status == 200, response.read()
        return Watching(response)

    def close(self) -> None:
        self._threads.shutdown()
        self._api.close()

    def _ask(self, request: Request) -> Answer:
        response = self._pool.request(
            request.method,
            self._url(request.path, request.query),
            body=None if request.body is None else json.dumps(request.body).encode(),
            headers=self._headers | {"content-type": request.media},
            retries=False,
            timeout=TIMEOUT_S,
        )
        return Answer(response.status, json.loads(response.data))

    def _url(self, path: str, query: dict[str, str]) -> str:
        return f"{self._api.configuration.host}{path}?{urlencode(query)}"
