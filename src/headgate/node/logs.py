"""Serves the logs of a node's containers on loopback; the embedded API server forwards `kubectl logs` to it.

`GET /{secret}/logs/{namespace}/{pod}/{container}` takes the query of the Kubernetes log subresource: follow,
previous, tailLines, timestamps, sinceSeconds, sinceTime, limitBytes. Every user of a machine can reach its
loopback interface, so the path begins with a secret, known only to those who may read the Node object.

Other API servers get logs from the node's own API (`kubelet`), which checks certificates and access.
"""

import hmac
import secrets
import time
from collections.abc import AsyncGenerator, Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from headgate import serving
from headgate.kubeschema import timestamps
from headgate.node import log_reading
from headgate.node.log_files import LogDirectory

_TRUE = ("true", "1", "True")


class NoLogError(Exception):
    """The container has no such log."""


class _Protocol(serving.BoundedProtocol):
    limits = serving.Limits(connections=512)
    """Twice the number of log readers that the API server allows."""


class LogServer:
    """Has its port from construction on, serves in `run()`, and must be closed."""

    def __init__(self, logs: LogDirectory) -> None:
        self._secret = secrets.token_urlsafe(32)
        self._socket = serving.listening_socket("127.0.0.1", 0)
        self._server = serving.EmbeddedServer(
            serving.configuration(
                application(logs, self._secret), timeout_graceful_shutdown=1, http=_Protocol
            )
        )

    @property
    def url(self) -> str:
        """The base of all paths, including the secret."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/{self._secret}"

    async def run(self) -> None:
        """Serve until `stop`."""
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        self._server.stop()

    def close(self) -> None:
        """Release the port; after `run` has ended."""
        self._socket.close()


def application(logs: LogDirectory, secret: str) -> Starlette:
    turns = log_reading.Turns()

    async def endpoint(request: Request) -> Response:
        if not hmac.compare_digest(request.path_params["secret"].encode(), secret.encode()):
            return PlainTextResponse("not found\n", status_code=404)
        path = request.path_params
        try:
            content = read(
                logs, turns, path["namespace"], path["pod"], path["container"], request.query_params
            )
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        except NoLogError as error:
            return PlainTextResponse(f"{error}\n", status_code=404)
        return StreamingResponse(content, media_type="text/plain")

    return Starlette(routes=[Route("/{secret}/logs/{namespace}/{pod}/{container}", endpoint)])


def read(
    logs: LogDirectory,
    turns: log_reading.Turns,
    namespace: str,
    pod: str,
    container: str,
    query: Mapping[str, str],
) -> AsyncGenerator[bytes, None]:
    """The log that a query of the log subresource asks for. Raises NoLogError, and ValueError if the query is
    not valid."""
    options = _options(query)
    previous = query.get("previous") in _TRUE
    file = logs.newest(namespace, pod, container, previous=previous)
    if file is None:
        which = "previous terminated container" if previous else "container"
        raise NoLogError(f"{which} {container!r} in pod {pod!r} not found")
    return log_reading.read(file, options, lambda: logs.is_live(file), turns)


def _options(query: Mapping[str, str]) -> log_reading.LogOptions:
    since = query.get("sinceTime")
    since_s = _number(query, "sinceSeconds")
    if since is not None:
        start: str | None = timestamps.nanoseconds(timestamps.parse(since))
    else:
        start = None if since_s is None else timestamps.nanoseconds(time.time() - since_s)
    return log_reading.LogOptions(
        follow=query.get("follow") in _TRUE,
        timestamps=query.get("timestamps") in _TRUE,
        tail_lines=_number(query, "tailLines"),
        since=start,
        limit_bytes=_number(query, "limitBytes"),
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise ValueError(f"{name}: {text!r} is not a number")
    return int(text)
