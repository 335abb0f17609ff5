"""Sends the requests of a story to a server."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml
from stories import Request, Story, filled

TIMEOUT_S = 60.0
WAIT_S = 60.0
POLL_S = 0.1


@dataclass(frozen=True)
class Response:
    """What a server sent: of a watch, a list of events."""

    code: int
    headers: Mapping[str, list[str]]
    body: Any


@dataclass(frozen=True)
class Server:
    """An API server, by the kubeconfig of its administrator."""

    host: str
    port: int
    authority: str
    token: str

    @classmethod
    def of(cls, kubeconfig: Path) -> Server:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url = urlsplit(cluster["server"])
        assert url.hostname
        assert url.port
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(url.hostname, url.port, authority, user["token"])

    def headers_of(self, user: str) -> dict[str, str]:
        """The headers that say who asks."""
        match user:
            case "nobody":
                return {}
            case "wrong":
                return {"Authorization": "Bearer wrong"}
            case "admin":
                return {"Authorization": f"Bearer {self.token}"}
        return {"Authorization": f"Bearer {self.token}", "Impersonate-User": user}


class Client:
    """One connection to a server, which is opened again when the server closes it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._context = ssl.create_default_context(cadata=server.authority)
        self._connection: http.client.HTTPSConnection | None = None

    def ask(self, request: Request, values: Mapping[str, str]) -> Response:
        """The response to a request, with its variables filled in."""
        deadline = time.monotonic() + WAIT_S
        while True:
            response = self._ask(request, values)
            if not request.until or response.code == request.until or time.monotonic() > deadline:
                return response
            time.sleep(POLL_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, request: Request, values: Mapping[str, str]) -> Response:
        try:
            return self._sent(request, values)
        except (http.client.HTTPException, ConnectionError, BrokenPipeError):
            if self._connection is None:
                raise
            self.close()  # the server had closed it after an earlier response
            return self._sent(request, values)

    def _sent(self, request: Request, values: Mapping[str, str]) -> Response:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._server.host, self._server.port, timeout=TIMEOUT_S, context=self._context
            )
        headers = self._server.headers_of(request.user) | {"User-Agent": "comparison/1"} | request.headers
        headers = {name: filled(value, values) for name, value in headers.items()}
        body = None if request.body is None else filled(request.body, values).encode()
        path = quote(filled(request.path, values), safe="/?&=%:,!()[]*+~;@'\"")
        self._connection.request(request.method, path, body, headers)
        response = self._connection.getresponse()
        told: dict[str, list[str]] = {}
        for name, value in response.getheaders():
            told.setdefault(name.lower(), []).append(value)
        if request.events and response.status == 200:
            found: Any = [json.loads(line) for line in _lines(response, request.events)]
            self.close()
        else:
            found = decoded(response.read(), told.get("content-type", [""])[0])
        return Response(response.status, told, found)


def _lines(response: http.client.HTTPResponse, number: int) -> list[bytes]:
    lines = []
    while len(lines) < number and (line := response.readline()):
        lines.append(line)
    return lines


class _Plain(yaml.CSafeLoader):
    """Leaves times as text."""


_Plain.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def decoded(body: bytes, media: str) -> Any:
    """JSON and YAML as their value, watch events as a list, anything else as text."""
    if "json" in media:
        try:
            return json.loads(body)
        except ValueError:
            return [json.loads(line) for line in body.splitlines()]
    text = body.decode(errors="replace")
    return yaml.load(text, Loader=_Plain) if "yaml" in media else text  # noqa: S506 - a safe one


def tell(story: Story, server: Server, suffix: str) -> list[Response]:
    """The responses to all requests of a story, in a new namespace."""
    client = Client(server)
    namespace = f"{_slug(story.name)}-{suffix}"
    values = dict(story.variables) | {"ns": namespace, "n": suffix}
    try:
        _prepare(client, (_NAMESPACE, _ACCOUNT, *story.needs), values)
        responses = []
        for request in story.requests:
            response = client.ask(request, values)
            for name, path in request.keep.items():
                values[name] = str(_at(response.body, path))
            responses.append(response)
        return responses
    finally:
        client.close()


def _slug(name: str) -> str:
    kept = "".join(each if each.isalnum() else "-" for each in name.lower())
    return kept[:50].strip("-")


def _at(body: Any, path: str) -> Any:
    for step in path.split("."):
        try:
            body = body[int(step)] if isinstance(body, list) else body[step]
        except (KeyError, IndexError, TypeError):
            return ""
    return body


_NAMESPACE = Request(
    "the namespace",
    "POST",
    "/api/v1/namespaces",
    {"Content-Type": "application/json"},
    json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$ns"}}),
)
_ACCOUNT = Request("its account", "GET", "/api/v1/namespaces/$ns/serviceaccounts/default", until=200)


def _prepare(client: Client, requests: Sequence[Request], values: Mapping[str, str]) -> None:
    for request in requests:
        response = client.ask(request, values)
        assert response.code in (200, 201), f"{request.name}: {response.body}"
