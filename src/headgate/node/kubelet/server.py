"""Accepts connections to a node's API, and checks who calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from headgate import serving
from headgate.node.kubelet import callers, requests, spdy, stdio
from headgate.node.kubelet.requests import RefusedError, Request, Response
from headgate.node.kubelet.reviews import ReviewError, Reviews

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
"""Twice the number of log readers that an API server has at most."""
MAX_STRANGERS = 64
"""Connections whose caller is not known yet. Beyond it, the oldest is closed for a new one."""
HANDSHAKE_S = 10.0
_ACCEPT_AGAIN_S = 0.1
_CLOSE_S = 10.0
_QUIET_S = 60.0
_LIMITS = serving.Limits(connections=MAX_CONNECTIONS, stalled_s=60.0)

Upgrade = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves a connection whose protocol has changed, until it ends."""
Answer = Callable[[Request], Awaitable[Response | Upgrade]]
"""Answers a request of an admitted caller. Raises RefusedError."""


class Server:
    """Has its socket from construction on, serves in `run`, and must be closed."""

    def __init__(
        self,
        listener: serving.Listener,
        context: Callable[[], ssl.SSLContext],
        reviews: Reviews,
        answer: Answer,
    ) -> None:
        """`context`: for the next connection."""
        self._listener = listener
        self._context = context
        self._reviews = reviews
        self._answer = answer
        self._known: set[asyncio.Task[None]] = set()
        self._strangers: dict[asyncio.Task[None], None] = {}
        """In the order of their arrival."""
        self._quiet_until = 0.0

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        self._listener.close()

    async def run(self) -> None:
        """Serve until cancelled, which ends all connections at once."""
        serving.drop_stalled(self._listener, _LIMITS)
        self._listener.listen(serving.BACKLOG)
        self._listener.keep_spare()
        async with asyncio.TaskGroup() as tasks:
            while True:
                peer = await self._accept()
                task = tasks.create_task(self._serve(peer))
                self._strangers[task] = None
                task.add_done_callback(self._forget)
                if len(self._strangers) > MAX_STRANGERS:
                    next(iter(self._strangers)).cancel()
                await asyncio.sleep(0)  # a flood of connections must leave time for others

    async def until_idle(self, limit_s: float) -> None:
        """Wait until the connections of admitted callers have ended, but not for longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._known:
                    await asyncio.wait(tuple(self._known))

    async def _accept(self) -> socket.socket:
        while True:
            try:
                peer, _ = self._listener.accept()
            except BlockingIOError:
                await stdio.ready(self._listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                log.error("the node's API cannot accept a connection: %s", error)
                await asyncio.sleep(_ACCEPT_AGAIN_S)
            else:
                peer.setblocking(False)
                return peer

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._strangers.pop(task, None)
        self._known.discard(task)

    async def _serve(self, peer: socket.socket) -> None:
        """One connection. Whatever its client does, nothing is raised but cancellation of the server."""
        try:
            reader, writer = await self._greet(peer)
        except (OSError, TimeoutError) as error:  # of TLS as well: the client's fault
            peer.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                self._warn(error)
            return
        except asyncio.CancelledError:
            peer.close()
            raise
        try:
            await self._converse(reader, writer)
        except asyncio.CancelledError:
            _shut_down(peer)  # a client that reads nothing must not hold up the node's end
            raise
        finally:
            await _close(writer, peer)

    def _warn(self, error: ssl.SSLCertVerificationError) -> None:
        """The client cannot show why: it is told by a reset connection. At most once a minute."""
        if time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + _QUIET_S
            log.warning(
                "the node's API refused a client certificate: %s; see --client-ca-file", error.verify_message
            )

    async def _greet(self, peer: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=requests.MAX_HEAD_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, peer, ssl=self._context(), ssl_handshake_timeout=HANDSHAKE_S
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve_request(reader, writer)
        except* (ConnectionError, ssl.SSLError, spdy.ProtocolError):
            pass
        except* Exception:
            log.exception("a request to the node's API failed")

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request: Request | None = None
        try:
            request = await requests.read(reader)
            if request is None:
                return
            await self._admit(request, writer)
            answer = await self._answer(request)
        except RefusedError as error:
            answer = requests.refusal(error)
        if not isinstance(answer, Response):
            await answer(reader, writer)
            return
        sending = asyncio.create_task(
            requests.respond(writer, answer, has_body=request is None or request.method != "HEAD")
        )
        leaving = asyncio.create_task(_left(reader))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _admit(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Raises RefusedError if the caller is unknown, or may not do this."""
        try:
            caller = callers.Caller.from_certificate(writer.get_extra_info("peercert"))
            if caller is None:
                caller = await self._reviews.caller(request.token)
            if caller is None:
                raise RefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized")
            right = callers.needed(request.method, request.path)
            if not await self._reviews.allows(caller, right):
                resources = " or ".join(f"nodes/{each}" for each in right.subresources)
                message = f'user "{caller.name}" has no right to {right.verb} {resources} of this node'
                raise RefusedError(HTTPStatus.FORBIDDEN, message)
        except ReviewError as error:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
        if len(self._known) >= MAX_CONNECTIONS:
            message = f"the node serves {MAX_CONNECTIONS} connections already: try again"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message)
        task = asyncio.current_task()
        assert task is not None
        self._strangers.pop(task, None)
        self._known.add(task)


async def _left(reader: asyncio.StreamReader) -> None:
    """Wait until the client disconnects; what it sends meanwhile is dropped."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(4096):
            pass


async def _close(writer: asyncio.StreamWriter, peer: socket.socket) -> None:
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass
    finally:
        _shut_down(peer)


def _shut_down(peer: socket.socket) -> None:
    """End a connection at once. In Python 3.11.2, transports of TLS that are closing cannot be aborted."""
    with contextlib.suppress(OSError):  # it has ended
        peer.shutdown(socket.SHUT_RDWR)
