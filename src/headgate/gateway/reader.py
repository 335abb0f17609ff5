"""Parses a client's bytes into requests, strictly and within size limits.

A request that two servers could interpret differently is rejected before any of it is forwarded. After a
rejection nothing more is read, because it is unknown where the next request would begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import httptools

from headgate.dataplane import bodies
from headgate.gateway import authenticating, hosts, unreadable
from headgate.gateway.incoming import FRAMING_FACTOR, MAX_FRAMING_BYTES, IncomingBody, IncomingHead, Upload
from headgate.gateway.request import Request
from headgate.gateway.request_head_cache import RequestHeadCache
from headgate.gateway.websocket import opening
from headgate.http2.frames import PREFACE
from headgate.loop_turns import AT_ONCE_BYTES
from headgate.requests.bodies import forms
from headgate.requests.bodies.form_stream import FormStream
from headgate.requests.bodies.large import LARGE_BYTES
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.dataplane.trust import Peer
    from headgate.gateway.policy import ClientPolicy
    from headgate.gateway.services import Services
    from headgate.gateway.settings import GatewaySettings

_CHECKED: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect", b"origin"})
"""Headers that are checked before the body is read."""
_VERSIONS: Final = ("1.1", "1.0")
_UPGRADING: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})
_SLASH: Final = 47
_HEAD_END: Final = b"\r\n\r\n"


class Client(Protocol):
    """The owner of the connection."""

    @property
    def may_begin_upload(self) -> bool:
        """Whether a request can be served now, before its body is complete."""
        ...

    def take_upload(self, request: Request, form: FormStream) -> Upload:
        """Take a request with the beginning of its body, if that is possible now."""
        ...

    def take(self, request: Request) -> Refusal | None:
        """Take a complete request; returns a refusal if that is not possible."""
        ...

    def open_websocket(self, request: Request) -> Refusal | None:
        """Take a request that opens a WebSocket, and all that follows; returns a refusal if that is not
        possible."""
        ...

    def may_continue(self) -> None:
        """The client waits for `100 Continue` to send the body."""


class _Nobody:
    """The client of a closed reader."""

    @property
    def may_begin_upload(self) -> bool:
        return False

    def take_upload(self, request: Request, form: FormStream) -> Upload:
        raise AssertionError("a request was read from a closed connection")

    def take(self, request: Request) -> Refusal | None:
        raise AssertionError("a request was read from a closed connection")

    def open_websocket(self, request: Request) -> Refusal | None:
        raise AssertionError("a request was read from a closed connection")

    def may_continue(self) -> None:
        raise AssertionError("a request was read from a closed connection")


_NO_PARSER: Final = httptools.HttpRequestParser(None)
_NOBODY: Final = _Nobody()


class RequestReader:
    """Reads the requests of one connection, and passes each complete one to it."""

    __slots__ = (
        "_body",
        "_fed_bytes",
        "_head",
        "_heads",
        "_in_head",
        "_parser",
        "_policy",
        "_refusal",
        "_services",
        "_settings",
        "_unused_bytes",
        "begun_at",
        "client",
        "owes_continue",
    )

    def __init__(self, services: Services, client: Client, peer: Peer) -> None:
        self._services = services
        self._settings = services.settings.clients
        self._policy = services.policy
        self.client: Client = client
        self._parser = httptools.HttpRequestParser(self)
        self._heads = RequestHeadCache()
        self._refusal: Refusal | None = None
        self._head = IncomingHead(peer)
        self._body = IncomingBody(services.bodies)
        self._fed_bytes = 0
        """Length of the data being parsed."""
        self._unused_bytes = 0
        """Bytes received since the head began or the body last grew: bounds chunk extensions and trailers
        as well."""
        self._in_head = True
        self.begun_at = services.now()
        """When the request being read began, or when the connection became idle."""
        self.owes_continue = False
        """Whether the client waits for `100 Continue`."""

    def change(self, settings: GatewaySettings, policy: ClientPolicy) -> None:
        """Apply new settings."""
        self._settings, self._policy = settings.clients, policy
        self._heads.forget()

    def feed(self, data: bytes) -> Refusal | None:
        """Parse more bytes. Returns the reason if these, and all that follow, are rejected."""
        begins = self._in_head and not self._unused_bytes and self._refusal is None
        if begins and (known := self._heads.recall(data, self._settings.max_body_bytes)) is not None:
            return self._take_known(known)
        self._heads.data = data if begins else b""
        return self._parse(data)

    def begin(self, data: bytes) -> tuple[int, Refusal | None]:
        """Read a request that starts with `data`, if its whole head is there and short. Reads the head, and
        without parsing what is there of a body of known length. Returns the number of bytes read, and the
        reason if these and all that follow are rejected."""
        if self.is_amid_request or self._refusal is not None:
            return 0, self._refusal
        if (known := self._heads.recall(data, self._settings.max_body_bytes)) is not None:
            return len(data), self._take_known(known)
        end = data.find(_HEAD_END, 0, AT_ONCE_BYTES) + len(_HEAD_END)
        if end < len(_HEAD_END):
            return 0, None
        self._heads.data = data
        refusal = self._parse(data[:end])
        if refusal is None and (left := self.body_left):
            refusal = self._parse(data[end : end + left])
            end += left
        self._heads.data = b""
        return end, refusal

    def _parse(self, data: bytes) -> Refusal | None:
        self._fed_bytes = len(data)
        self._unused_bytes += len(data)
        if self._body.is_chunked and not self._in_head:
            self._body.framed(len(data))
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._is_invalid(error)
        if self._unused_bytes > self._settings.max_head_bytes and self._refusal is None:
            part = "head" if self._in_head else "trailer"
            self._refusal = unreadable.too_large(part, self._settings.max_head_bytes, 431)
        body = self._body
        if body.is_chunked and not self._in_head and self._refusal is None and body.has_too_much_framing:
            self._refusal = unreadable.too_much_framing(MAX_FRAMING_BYTES, FRAMING_FACTOR)
        return self._refusal

    def _take_known(self, request: Request) -> Refusal | None:
        """Take a request with a known head, as after the last callback of llhttp, which skips these bytes."""
        self.begun_at = request.arrived_at = self._services.now()
        head = self._head
        head.target, head.response_lines = request.target, request.response_lines
        request.keep_alive = not self._services.shutdown.is_leaving
        identity = request.parsed.identity
        if identity is not None:
            self._refusal = authenticating.expired(self._services, identity, request.parsed.headers)
            if self._refusal is not None:
                return self._refusal
        memory, size = self._body.memory, request.held_bytes
        memory.held += size
        if memory.held > memory.limit_of_long and memory.is_exceeded_by(size):
            memory.release(request)
            self._refusal = memory.refusal()
            return self._refusal
        refusal = self._refusal = self.client.take(request)
        return refusal

    def close(self) -> None:
        """Stop reading for good. The parser and the connection refer to the reader; these reference cycles
        would keep all three until the next garbage collection, which the gateway makes rare."""
        self._parser, self.client = _NO_PARSER, _NOBODY
        self._head.clear()
        self._heads.data = b""
        self.drop_body()

    def drop_body(self) -> None:
        """Free a partial body: its request was rejected, or its client has left."""
        self._body.drop()

    @property
    def is_uploading(self) -> bool:
        """Whether the request is being served whose body is read."""
        return self._body.is_streamed

    @property
    def is_amid_request(self) -> bool:
        return self._unused_bytes > 0 or not self._in_head

    @property
    def body_left(self) -> int:
        """Bytes still to come of a body of known length; 0 otherwise."""
        return 0 if self._in_head else self._body.left

    @property
    def body_bytes(self) -> int:
        """Bytes received of the body being read."""
        return self._body.size

    def preface_left(self, fed: int = 0) -> bytes:
        """What is missing of the preface of HTTP/2, if all of the head before the last `fed` bytes belongs to
        it; empty within a body."""
        return PREFACE[max(self._unused_bytes - fed, 0) :] if self._in_head else b""

    @property
    def target(self) -> bytes:
        """The target of the request being read, as far as it has arrived."""
        return self._head.target

    @property
    def response_lines(self) -> bytes:
        """Header lines required in the response to the request being read."""
        return self._head.response_lines

    # -- llhttp callbacks

    def on_message_begin(self) -> None:
        self._head.clear()
        # After another message, it is not known yet how much of the data belongs to this one.
        self._unused_bytes = self._unused_bytes or 1
        self._in_head = True
        self.begun_at = self._services.now()

    def on_url(self, target: bytes) -> None:
        self._head.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: as a header, it would bypass their checks
        headers = self._head.headers
        headers.append((name.lower(), value))
        if len(headers) > self._settings.max_headers:
            self._refuse(unreadable.too_many_headers(self._settings.max_headers))

    def on_headers_complete(self) -> None:
        if self._unused_bytes + self._fed_bytes > self._settings.max_head_bytes:
            self._check_head_size()
        self._in_head = False
        self._unused_bytes = 0
        head = self._head
        version = head.version = self._parser.get_http_version()
        if version not in _VERSIONS:
            self._refuse(unreadable.unknown_version(version))
        hosts_said = 0
        host = length = coding = expected = origin = b""
        for name, value in head.headers:
            if name in _CHECKED:
                if name == b"host":
                    hosts_said += 1
                    host = value
                elif name == b"content-length":
                    length = value
                elif name == b"origin":
                    origin = value
                elif name == b"expect":
                    expected = expected + b", " + value if expected else value
                else:
                    coding = coding + b", " + value if coding else value
        if self._policy.adds_lines:
            head.response_lines = self._policy.lines(origin, head.peer.scheme)
        size = int(length) if length else 0
        if size > self._settings.max_body_bytes:
            self._body_too_large()
        self._body.begin(size, is_chunked=bool(coding))
        if coding:
            self._check_coding(coding)
        if hosts_said != 1:
            self._check_count_of_hosts(hosts_said)
        if head.target[0] != _SLASH or head.target.find(b"#") >= 0:
            host = self._split_target(host, hosts_said)
        if host != self._heads.allowed_host:
            host = self._check_host(host)
        head.host = host
        if self._policy.credentials.gate is not None:
            self._authenticate()
        if size > LARGE_BYTES and (boundary := forms.boundary_of(head.headers)) is not None:
            self._body.form = FormStream(boundary)
        elif size > bodies.LONG_BYTES and not self._body.memory.has_room(size):
            self._refuse(self._body.memory.refusal())
        if expected:
            self._expect(expected, has_body=bool(coding) or (length or b"0") != b"0")

    def on_body(self, data: bytes) -> None:
        body = self._body
        body.add(data)
        memory = body.memory
        self._unused_bytes = 0
        if body.is_streamed:
            if body.upload is not None:
                body.upload.receive(data)
            self._check_upload()
            return
        if memory.held > memory.limit_of_long and memory.is_exceeded_by(body.size):
            self._refuse(memory.refusal())
        if body.size > self._settings.max_body_bytes:
            self._body_too_large()
        if body.form is not None:
            self._read_form(body.form, data)

    def _read_form(self, form: FormStream, data: bytes) -> None:
        """Begin to serve the request, once its model is known."""
        refusal = form.feed(data)
        if refusal is not None:
            self._refuse(refusal)
        body = self._body
        if form.form is None or not self.client.may_begin_upload:
            return
        body.form = None
        if body.size > LARGE_BYTES or self._parser.get_method() != b"POST":
            return  # it is held until it is complete
        parsed = self._head.parsed(self._parser.get_method())
        keep_alive = not parsed.is_http_1_0 and self._parser.should_keep_alive()
        keep_alive = keep_alive and not self._services.shutdown.is_leaving
        request = Request(parsed, body.stream(), keep_alive, self._services.now())
        request.more_bytes = body.length - body.size
        upload = self.client.take_upload(request, form)
        self._check_upload()
        body.upload = upload

    def _check_upload(self) -> None:
        """Read no more of a request that was refused before it was complete."""
        if not self._body.is_streamed:
            self._refuse(unreadable.unfinished())

    def on_message_complete(self) -> None:
        self._in_head = True
        self._unused_bytes = 0
        if self._parser.should_upgrade():
            return  # with an upgrade, llhttp reads no body and raises an error next
        self.owes_continue = False
        if self._body.is_streamed:
            self._body.drop()
            return
        parsed = self._head.parsed(self._parser.get_method())
        keep_alive = not parsed.is_http_1_0 and self._parser.should_keep_alive()
        keep_alive = keep_alive and not self._services.shutdown.is_leaving
        request = Request(parsed, self._body.hand_over(), keep_alive, self._services.now())
        if not request.keep_alive:
            self._heads.forget()  # nothing may follow: llhttp accepts no further request
        else:
            self._heads.learn(request)
        refusal = self.client.take(request)
        if refusal is not None:
            self._refuse(refusal)

    # -- checks

    def _refuse(self, refusal: Refusal) -> NoReturn:
        """Stop parsing. Only for callbacks of llhttp."""
        if self._refusal is None:
            self._refusal = refusal
        raise httptools.HttpParserError(refusal.code)

    def _is_invalid(self, error: httptools.HttpParserError) -> None:
        if self._refusal is None:
            self._refusal = unreadable.invalid(error)

    def _check_head_size(self) -> None:
        """Count the exact size of a head that may be too long."""
        if self._head.size > self._settings.max_head_bytes:
            self._refuse(unreadable.too_large("head", self._settings.max_head_bytes, 431))

    def _body_too_large(self) -> None:
        self._refuse(unreadable.too_large("body", self._settings.max_body_bytes, 413))

    def _check_coding(self, value: bytes) -> None:
        if value.lower() != b"chunked":
            self._refuse(unreadable.unknown_coding(value))
        if self._head.version == "1.0":
            # A proxy that forwarded it did not know the coding, and may have seen a different body.
            self._refuse(unreadable.invalid("HTTP/1.0 has no transfer-encoding"))

    def _check_count_of_hosts(self, count: int) -> None:
        if count > 1:
            self._refuse(hosts.bad_host(f"the request names {count} hosts: one is needed"))
        if self._head.version == "1.1":
            self._refuse(hosts.bad_host("the request has no host header: HTTP/1.1 needs one"))

    def _split_target(self, host: bytes, hosts_said: int) -> bytes:
        """Reduce a target that is a URL to its path; returns the host of the request."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            self._refuse(unreadable.no_tunnels())
        split = hosts.split_target(method, self._head.target)
        if isinstance(split, Refusal):
            self._refuse(split)
        named, self._head.target = split
        if named is None:
            return host
        if hosts_said and named.lower() != host.strip().lower():
            self._refuse(hosts.bad_host("the request's target and its host header name different hosts"))
        return named

    def _check_host(self, host: bytes) -> bytes:
        host = host.strip(b" \t")
        refusal = self._policy.hosts.refusal(host)
        if refusal is not None and (refusal.status == 400 or self._head.target not in authenticating.PROBES):
            self._refuse(refusal)
        if refusal is None:
            self._heads.allowed_host = host
        return host

    def _authenticate(self) -> None:
        """Find out who the client is, or reject the request. Requests of any form pass here, except those
        with a known head, which was admitted before."""
        if self._parser.should_upgrade() and not self._opens_websocket():
            return  # without the offer, the head is read again, and needs its credentials then
        head, method = self._head, self._parser.get_method()
        found = authenticating.admit(self._services, method, head.target, head.headers, head.peer)
        if isinstance(found, Refusal):
            self._refuse(found)
        head.identity = found

    def _expect(self, expected: bytes, *, has_body: bool) -> None:
        if expected.strip().lower() != b"100-continue":
            self._refuse(unreadable.unknown_expectation(expected))
        if has_body and self._head.version == "1.1" and not self._parser.should_upgrade():
            self.owes_continue = True
            self.client.may_continue()

    def _upgrade(self, rest: bytes) -> None:
        """Ignore an offer to upgrade the protocol (RFC 9110, 7.8), unless it opens a WebSocket.

        Java's own client offers h2c with every first request. llhttp stops after such a head, so a fresh
        parser gets the head without the offer, and then the `rest`, which begins with the body.
        """
        behind = self._heads.data[self._fed_bytes :]  # of data whose head alone was fed
        self._heads.data = b""
        if self._refusal is None and self._opens_websocket():
            self._open_websocket(rest or behind)
        else:
            self._ignore_offers(rest)

    def _opens_websocket(self) -> bool:
        head = self._head
        return opening.is_asked(
            self._parser.get_method(), head.version, head.headers, head.target, self._policy
        )

    def _open_websocket(self, rest: bytes) -> None:
        head = self._head
        lines, scheme = head.response_lines, head.peer.scheme
        refusal = opening.refusal(head.headers, head.host, scheme, lines, rest)
        if refusal is None:
            request = Request(head.parsed(b"GET"), b"", False, self._services.now())
            refusal = self.client.open_websocket(request)
        self._refusal = refusal

    def _ignore_offers(self, rest: bytes) -> None:
        while self._refusal is None:
            method = self._parser.get_method()
            if method == b"CONNECT":
                self._refusal = unreadable.no_tunnels()
                return
            head = [b"%b %b HTTP/%b\r\n" % (method, self._head.target, self._head.version.encode())]
            head += [b"%b: %b\r\n" % header for header in self._head.headers if header[0] not in _UPGRADING]
            if not self._parser.should_keep_alive():
                head.append(b"connection: close\r\n")
            data = b"".join((*head, b"\r\n", rest))
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                rest = data[upgrade.args[0] :]
                continue
            except httptools.HttpParserError as error:
                self._is_invalid(error)
            return
