"""Raw requests and streams: each is bounded in time and size, and each failure is an `ApiError`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import NamedTuple
from urllib.parse import urlencode

import httpx2
from lightkube.core.exceptions import ConfigError

from headgate.cluster import connection
from headgate.cluster.errors import ApiError, Unreachable

Query = Mapping[str, str | None]
"""Query parameters; those without a value are omitted."""

_REQUEST_DEADLINE_S = 60.0
_MAX_ANSWER_BYTES = 256 << 20
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
# Failures below HTTP: the network, TLS, a token file, an exec plugin.
_TRANSPORT_ERRORS = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ConfigError)


class Answer(NamedTuple):
    """The response to a successful request."""

    body: bytes
    status_code: int
    warnings: tuple[str, ...]
    """For the user: legal, but most likely not what was intended."""


class Transport:
    """Responses of one server, complete or streamed."""

    def __init__(self, link: connection.Connection) -> None:
        self.link = link

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
        query: Query | None = None,
    ) -> bytes:
        return (await self.exchange(method, path, body, content_type=content_type, query=query)).body

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
        query: Query | None = None,
        accept: str = "application/json",
    ) -> Answer:
        """A request whose response is more than its body, or in another format."""
        asked = f"{method} {path}"
        headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        url = self._url(path, query or {})
        with _transport_errors(asked):
            async with (
                asyncio.timeout(_REQUEST_DEADLINE_S),
                self.link.requests.stream(method, url, content=body, headers=headers) as response,
            ):
                answer = await _read(response)
        if response.status_code >= 300:
            raise ApiError.from_body(response.status_code, answer, asked)
        return Answer(answer, response.status_code, _warnings(response.headers))

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, read_timeout_s: float, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A GET whose body is read as it is produced (watches, logs): an iterator of chunks as they arrive.

        Raises Unreachable if nothing arrives for `read_timeout_s`.
        """
        asked = f"GET {path}"
        timeout = httpx2.Timeout(connection.REQUEST_TIMEOUT.connect, read=read_timeout_s)
        request = self.link.streams.build_request(
            "GET", self._url(path, query), timeout=timeout, headers={"Accept": accept}
        )
        with _transport_errors(asked):
            async with asyncio.timeout(_REQUEST_DEADLINE_S):
                response = await self.link.streams.send(request, stream=True)
        try:
            if response.status_code >= 300:
                with _transport_errors(asked):
                    raise ApiError.from_body(response.status_code, await _read(response), asked)
            async with aclosing(_chunks(response, asked)) as chunks:
                yield chunks
        finally:
            await response.aclose()

    @asynccontextmanager
    async def stream_lines(
        self, path: str, query: Query, read_timeout_s: float, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Like `stream`, split into lines of bounded length."""
        async with (
            self.stream(path, query, read_timeout_s, accept) as chunks,
            aclosing(_lines(chunks, f"GET {path}")) as lines,
        ):
            yield lines

    def _url(self, path: str, query: Query) -> str:
        """Complete, so that httpx2 has to parse it only once."""
        url = self.link.server.rstrip("/") + path
        present = urlencode({name: value for name, value in query.items() if value})
        return f"{url}?{present}" if present else url


def _warnings(headers: httpx2.Headers) -> tuple[str, ...]:
    """The texts of Warning headers, as Kubernetes writes them (RFC 7234 5.5 with code 299)."""
    found = _WARNING.findall(", ".join(headers.get_list("Warning")))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in found)


@contextmanager
def _transport_errors(asked: str) -> Iterator[None]:
    """Turn failures below HTTP into Unreachable."""
    try:
        yield
    except TimeoutError as error:
        raise Unreachable(
            f"no answer within {_REQUEST_DEADLINE_S:.0f} s", reason="Unreachable", request=asked
        ) from error
    except _TRANSPORT_ERRORS as error:
        raise Unreachable.because(error, asked) from error


async def _read(response: httpx2.Response) -> bytes:
    """The whole body, of bounded size. A compressed one, which was not requested, is not decompressed: some
    kilobytes of it could be gigabytes."""
    coding = response.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise httpx2.DecodingError(f"the answer is compressed ({coding[:64]}), which was not asked for")
    parts: list[bytes] = []
    size = 0
    async for chunk in response.aiter_raw():
        parts.append(chunk)
        size += len(chunk)
        if size > _MAX_ANSWER_BYTES:
            raise httpx2.ReadError(f"the answer is longer than {_MAX_ANSWER_BYTES} bytes")
    return b"".join(parts)


async def _chunks(response: httpx2.Response, asked: str) -> AsyncGenerator[bytes, None]:
    with _transport_errors(asked):
        async for chunk in response.aiter_raw():
            yield chunk


async def _lines(chunks: AsyncIterator[bytes], asked: str) -> AsyncGenerator[bytes, None]:
    splitter = LineSplitter()
    async for chunk in chunks:
        try:
            for line in splitter.feed(chunk):
                yield line
        except LineTooLongError as error:
            raise Unreachable.because(error, asked) from error


# Splits a byte stream into lines as it arrives, with a bound on the length of a line.
MAX_LINE_BYTES = 16 << 20
"""Ten times what etcd accepts for one object."""


class LineTooLongError(Exception):
    """The peer sent more than the bound without ending the line."""


class LineSplitter:
    """Collects bytes and returns whole lines; the rest waits for more, and is lost with the connection."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every line that `data` completes, without its line end; empty lines are skipped."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = self._complete(data[start:end])
            start = end + 1
            if line and line != b"\r":
                yield line
        self._hold(data[start:])

    def _complete(self, tail: bytes) -> bytes:
        self._hold(tail)
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._held = [], 0
        return line

    def _hold(self, data: bytes) -> None:
        self._held += len(data)
        if self._held > self._max_bytes:
            raise LineTooLongError(f"a line of the stream is longer than {self._max_bytes} bytes")
        if data:
            self._parts.append(data)
