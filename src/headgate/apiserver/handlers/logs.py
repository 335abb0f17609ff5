"""pods/log: logs are kept by the node; its response is streamed through."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httptools
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.api.marks import LOG_ENDPOINT
from headgate.apiserver import errors
from headgate.apiserver.objects import Objects
from headgate.apiserver.storage import Key
from headgate.apiserver.targets import Target

CONNECT_S = 5
_CHUNK_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_PASSED = ("follow", "tailLines", "previous", "timestamps", "sinceSeconds", "sinceTime", "limitBytes")


async def proxy(objects: Objects, target: Target, request: Request) -> Response:
    """The log of a Pod's container, from the node that runs it."""
    pod = objects.get(target)
    container = _container(target, pod, request.query_params.get("container"))
    host, port, base = _endpoint(objects, target, pod)
    query = {name: request.query_params[name] for name in _PASSED if name in request.query_params}
    path = "/".join(quote(part, safe="") for part in ("logs", target.namespace, target.name, container))
    url = f"{base}/{path}" + (f"?{urlencode(query)}" if query else "")
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        raise errors.unavailable(
            f"cannot reach the node of Pod {target.name} at {host}:{port}: {error}"
        ) from error
    upstream = _Upstream(reader, writer)
    try:
        await upstream.start(host, port, url)
        if upstream.status != 200:
            raise await _refusal(upstream)
    except BaseException:
        upstream.close()
        raise
    return StreamingResponse(upstream.body(), media_type="text/plain")


def _container(target: Target, pod: dict[str, Any], wanted: str | None) -> str:
    spec = pod.get("spec") or {}
    names = [c.get("name", "") for key in ("containers", "initContainers") for c in spec.get(key) or []]
    if wanted is None and len(spec.get("containers") or []) == 1:
        return str(names[0])
    if wanted is None:
        told = f"a container name must be specified for pod {target.name}, choose one of: [{' '.join(names)}]"
        raise errors.bad_request(told)
    if wanted not in names:
        raise errors.bad_request(f"container {wanted} is not valid for pod {target.name}")
    return wanted


def _endpoint(objects: Objects, target: Target, pod: dict[str, Any]) -> tuple[str, int, str]:
    """Host, port and base path published by the Pod's Node."""
    node_name = (pod.get("spec") or {}).get("nodeName")
    if not node_name:
        raise errors.bad_request(f"pod {target.name} does not have a host assigned")
    node = objects.store.get(Key("nodes", "", node_name))
    if node is None:
        raise errors.not_found("", "nodes", node_name)
    url = (node.decode()["metadata"].get("annotations") or {}).get(LOG_ENDPOINT)
    if not url:
        raise errors.unavailable(f"Node {node_name} publishes no {LOG_ENDPOINT}, so its logs are unavailable")
    try:
        parts = urlsplit(url)
        if (
            parts.scheme != "http"
            or not parts.hostname
            or not ipaddress.ip_address(parts.hostname).is_loopback
        ):
            raise ValueError("it must be an http URL of a loopback address")
        return parts.hostname, parts.port or 80, parts.path.rstrip("/")
    except ValueError as error:
        raise errors.unavailable(f"Node {node_name}: annotation {LOG_ENDPOINT}={url!r}: {error}") from error


async def _refusal(upstream: _Upstream) -> errors.StatusError:
    text = bytearray()
    async for chunk in upstream.body():
        text += chunk[: 1024 - len(text)]
        if len(text) >= 1024:
            break
    message = text.decode(errors="replace").strip() or f"the node answered {upstream.status}"
    if upstream.status == 404:
        return errors.StatusError(404, "NotFound", message)
    return errors.bad_request(message) if upstream.status == 400 else errors.unavailable(message)


class _Upstream:
    """One GET to a node; its public methods are the callbacks of llhttp's parser."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._done = False
        self._headers_done = False
        self.status = 0

    def on_headers_complete(self) -> None:
        self._headers_done = True
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        self._done = True

    async def start(self, host: str, port: int, url: str) -> None:
        """Send the request and read until the end of the head."""
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._writer.write(f"GET {url} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n".encode())
        read = 0
        async with asyncio.timeout(CONNECT_S):
            while not self._headers_done:
                read += await self._read()
                if self._done or read > _MAX_HEAD_BYTES:
                    break
        if not self._headers_done:
            raise errors.unavailable("the node closed the connection before it answered")

    async def body(self) -> AsyncIterator[bytes]:
        """The body as it arrives; ends when the node ends it or disconnects."""
        try:
            while True:
                chunks, self._chunks = self._chunks, []
                for chunk in chunks:
                    yield chunk
                if self._done:
                    return
                await self._read()
        finally:
            self.close()

    def close(self) -> None:
        self._writer.close()

    async def _read(self) -> int:
        try:
            data = await self._reader.read(_CHUNK_BYTES)
            if data:
                self._parser.feed_data(data)
        except (OSError, httptools.HttpParserError) as error:
            if not self._headers_done:
                raise errors.unavailable(f"the node's answer cannot be read: {error}") from error
            data = b""
        self._done = self._done or not data
        return len(data)
