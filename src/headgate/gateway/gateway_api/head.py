"""Reads the head of one request, strictly: its body is framed by what this module finds, and nothing else."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import httptools

from headgate.gateway import hosts, unreadable
from headgate.gateway.request import nominated
from headgate.requests.client import Header
from headgate.requests.refusal import Refusal

MAX_PARAMETERS: Final = 256
"""Query parameters of one request that matches read; further ones are not looked at."""
_VERSIONS: Final = ("1.1", "1.0")
_DOTS: Final = re.compile(rb"/(?:\.|%2e){1,2}(?=[/?]|$)", re.IGNORECASE)
_DOT: Final = re.compile(r"%2e", re.IGNORECASE)
_NO_PARSER: Final = httptools.HttpRequestParser(None)
_HTTP: Final = (b"h2", b"http/")
"""Beginnings of names of HTTP's own versions, which are not passed on: a client that spoke HTTP/2 with a
backend through a tunnel could ask it for what no rule matches. Offers may be ignored (RFC 9110, 7.8), and
Java's client offers h2c with every first request."""


class Limits(NamedTuple):
    head_bytes: int
    headers: int


class Head:
    """The head of a request after all checks. `path` has no dot segments, and `target` begins with it."""

    def __init__(self, reading: _Reading, host: bytes, target: bytes) -> None:
        self.method = reading.method
        self.host = host
        """As the client sent it."""
        self.target = target
        path, mark, query = target.partition(b"?")
        self.path = path.decode("latin-1")
        self.query = mark + query
        """With its question mark; empty without one."""
        self.headers = reading.headers
        self.is_http_1_0 = reading.version == "1.0"
        self.keep_alive = reading.keep_alive and not self.is_http_1_0
        self.length = reading.length
        """Of the body; 0 if there is none, or if it is chunked."""
        self.is_chunked = reading.is_chunked
        self.expects_continue = reading.expects_continue and not self.is_http_1_0
        self.upgrade = reading.upgrade
        """The protocol that the client wants to go on with; empty for HTTP."""

    @property
    def has_body(self) -> bool:
        return self.is_chunked or self.length > 0

    @functools.cached_property
    def name(self) -> str:
        """The host in lower case, without its port; empty if it has none."""
        return (hosts.named(self.host) or b"").decode("latin-1")

    @functools.cached_property
    def _values(self) -> dict[bytes, str]:
        values: dict[bytes, str] = {}
        for name, value in self.headers:
            text = value.decode("latin-1").strip()
            values[name] = f"{values[name]},{text}" if name in values else text
        return values

    def values(self) -> Mapping[bytes, str]:
        return self._values

    @functools.cached_property
    def _parameters(self) -> dict[str, str]:
        text = self.query[1:].decode("latin-1")
        pairs = parse_qsl(
            "&".join(text.split("&")[:MAX_PARAMETERS]), keep_blank_values=True, errors="replace"
        )
        return dict(reversed(pairs))

    def parameters(self) -> Mapping[str, str]:
        return self._parameters


def read(data: bytes, limits: Limits) -> Head | Refusal:
    """The head in `data`, which ends with its empty line."""
    reading = _Reading()
    try:
        reading.parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # the body of the request, if any, is not read by this parser anyway
    except httptools.HttpParserError as error:
        return unreadable.invalid(error)
    finally:
        reading.parser = _NO_PARSER  # they refer to each other
    return reading.finished(limits)


class _Reading:
    """llhttp with its callbacks."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.target = self.method = self.upgrade = b""
        self.headers: list[Header] = []
        self.version = ""
        self.length = 0
        self.is_chunked = self.keep_alive = self.expects_continue = False
        self._is_complete = False

    def on_url(self, target: bytes) -> None:
        self.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.method = self.parser.get_method()
        self.version = self.parser.get_http_version()
        self.keep_alive = self.parser.should_keep_alive()
        self._is_complete = True

    def finished(self, limits: Limits) -> Head | Refusal:
        if not self._is_complete:
            return unreadable.invalid("the head is not complete")
        if len(self.headers) > limits.headers:
            return unreadable.too_many_headers(limits.headers)
        if self.version not in _VERSIONS:
            return unreadable.unknown_version(self.version)
        if self.method == b"CONNECT":
            return unreadable.no_tunnels()
        refusal = self._read_framing()
        if refusal is not None:
            return refusal
        split = hosts.split_target(self.method, self.target)
        if isinstance(split, Refusal):
            return split
        host = self._host(split[0])
        return host if isinstance(host, Refusal) else Head(self, host, _without_dots(split[1]))

    def _read_framing(self) -> Refusal | None:
        coding = expected = b""
        for name, value in self.headers:
            if name == b"transfer-encoding":
                coding = coding + b", " + value if coding else value
            elif name == b"content-length":
                self.length = int(value)
            elif name == b"expect":
                expected = expected + b", " + value if expected else value
            elif name == b"upgrade":
                offers = (each.strip() for each in value.lower().split(b","))
                kept = [each for each in offers if each and not each.startswith(_HTTP)]
                self.upgrade = b", ".join([self.upgrade, *kept] if self.upgrade else kept)
        if coding:
            if coding.lower() != b"chunked":
                return unreadable.unknown_coding(coding)
            if self.version == "1.0" or self.length:
                # A proxy that forwarded it may have seen a different body.
                return unreadable.invalid("transfer-encoding with HTTP/1.0, or with a content-length")
            self.is_chunked = True
        if expected:
            if expected.strip().lower() != b"100-continue":
                return unreadable.unknown_expectation(expected)
            self.expects_continue = True
        if self.version == "1.0" or b"upgrade" not in nominated(self.headers):
            self.upgrade = b""
        return None

    def _host(self, named: bytes | None) -> bytes | Refusal:
        given = [value.strip(b" \t") for name, value in self.headers if name == b"host"]
        if len(given) > 1:
            return hosts.bad_host(f"the request names {len(given)} hosts: one is needed")
        if not given and self.version == "1.1":
            return hosts.bad_host("the request has no host header: HTTP/1.1 needs one")
        host = named if named is not None else (given or [b""])[0]
        if given and named is not None and named.lower() != given[0].lower():
            return hosts.bad_host("the request's target and its host header name different hosts")
        return hosts.ANY.refusal(host) or host


def _without_dots(target: bytes) -> bytes:
    """The target without the segments "." and ".." in its path (RFC 3986, 5.2.4), escaped or not: the backend
    would resolve them, to a path that was not matched."""
    if _DOTS.search(target) is None:
        return target
    path, mark, query = target.partition(b"?")
    kept: list[str] = []
    segments = path.decode("latin-1").split("/")[1:]
    for i, segment in enumerate(segments):
        plain, is_last = _DOT.sub(".", segment), i == len(segments) - 1
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
            continue
        if is_last:
            kept.append("")
    return b"/" + "/".join(kept).encode("latin-1") + mark + query
