"""Reads byte ranges of files over HTTP, from servers that may break off, stall, or send something else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import httpx2

from headgate.downloads.errors import ChangedError, DownloadError, Reason, TemporaryError

_TIMEOUT = httpx2.Timeout(connect=10.0, read=30.0, write=30.0, pool=60.0)
_SLOW_BYTES = 64 << 10
_SLOW_S = 60.0
"""A response that brings less than _SLOW_BYTES in _SLOW_S is ended, and the rest requested again."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504, 509, 520, 521, 522, 523, 524})

Explain = Callable[[httpx2.Response], Exception]
"""Returns the error that a response with an unexpected status stands for."""


def new_client(*, follow_redirects: bool) -> httpx2.Client:
    """The client strips credentials from redirects to other hosts."""
    return httpx2.Client(
        timeout=_TIMEOUT,
        follow_redirects=follow_redirects,
        max_redirects=5,
        limits=httpx2.Limits(max_connections=64, keepalive_expiry=30.0),
    )


@contextmanager
def failures_explained(host: str) -> Iterator[None]:
    """Turn failures of the connection into TemporaryError."""
    try:
        yield
    except httpx2.TooManyRedirects as error:
        raise DownloadError(Reason.REFUSED, f"{host} redirects in circles; check the endpoint") from error
    except httpx2.InvalidURL as error:
        raise DownloadError(Reason.INVALID_SOURCE, f"{host}: {error}; check the endpoint") from error
    except (httpx2.HTTPError, OSError) as error:
        text = str(error) or type(error).__name__
        raise TemporaryError(f"{host}: {text}") from error


def temporary(response: httpx2.Response) -> TemporaryError | None:
    """The error of a response whose request should be repeated."""
    if response.status_code not in _TEMPORARY:
        return None
    after = response.headers.get("Retry-After", "")
    after_s = float(after) if re.fullmatch(r"\d{1,4}", after) else 0.0
    return TemporaryError(f"{response.url.host} returned {response.status_code}", after_s)


@contextmanager
def opened(
    client: httpx2.Client,
    url: str,
    headers: Mapping[str, str],
    start: int,
    end: int,
    size: int,
    explain: Explain,
) -> Iterator[Iterator[bytes]]:
    """Yield the content from `start` to `end` of a file of `size` bytes, in pieces, and never more than that.

    It may end early, without an error. Raises TemporaryError, ChangedError and DownloadError.
    """
    wanted = {**headers, "Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
    host = httpx2.URL(url).host
    with failures_explained(host), client.stream("GET", url, headers=wanted) as response:
        _check(response, start, end, size, explain)
        yield _pieces(response, host, end - start)


def _check(response: httpx2.Response, start: int, end: int, size: int, explain: Explain) -> None:
    host = response.url.host
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise DownloadError(Reason.REFUSED, f"{host} compresses a file although it was asked not to")
    if response.status_code == 206:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != start or int(found[2]) >= end:
            raise TemporaryError(f"{host} returned another range than bytes {start}-{end - 1}")
        if found[3] not in ("*", str(size)):
            raise ChangedError(f"{host} has {found[3]} bytes of a file that was listed with {size}")
    elif response.status_code == 200:
        if start:
            raise DownloadError(
                Reason.REFUSED,
                f"{host} ignores byte ranges, so that no download can be continued; use another endpoint",
            )
        if (length := response.headers.get("Content-Length")) is not None and length != str(size):
            raise ChangedError(f"{host} has {length[:20]} bytes of a file that was listed with {size}")
    elif response.status_code in (412, 416):
        raise ChangedError(f"{host}: the file has changed since it was listed")
    else:
        raise temporary(response) or explain(response)


def _pieces(response: httpx2.Response, host: str, count: int) -> Iterator[bytes]:
    since, received = time.monotonic(), 0
    for piece in response.iter_raw():
        piece = piece[:count]
        count -= len(piece)
        received += len(piece)
        if piece:
            yield piece
        if not count:
            return
        if (now := time.monotonic()) - since > _SLOW_S:
            if received < _SLOW_BYTES:
                raise TemporaryError(f"{host} sends less than {_SLOW_BYTES / _SLOW_S / 1024:.0f} KiB/s")
            since, received = now, 0
