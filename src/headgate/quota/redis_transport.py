"""Sends claims to a Redis server on one connection, one pipeline per exchange."""

from __future__ import annotations

import asyncio
import logging
import ssl
import uuid
from collections.abc import Sequence, Set
from typing import Any, NamedTuple, cast

import redis.asyncio
from redis._parsers import _AsyncRESP2Parser
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, NoScriptError, RedisError, ResponseError

from headgate.api.marks import Address
from headgate.flow.limits import Claim, Presence, Standing
from headgate.lookup import Lookup
from headgate.quota import redis_acl, redis_members, redis_script
from headgate.quota.redis_access import NO_REDIS, RedisAccess, explained
from headgate.quota.transport import Answer, Denied, Refused, Unreachable
from headgate.telemetry.line_log import FewLines

log = logging.getLogger(__name__)

DEFAULT_PORT = 6379
OF_ONE_KEY = "WRONGTYPE"
"""In an error that is not about the server: the key holds a value of another kind."""
TIMEOUT_S = 2.0
"""Timeout of a connection, and of a response."""
EXCHANGE_S = 10.0
"""Timeout of all responses of an exchange."""
MAX_ANSWER_BYTES = 64 * 1024
"""Per response; a grant has 200."""
MAX_DEPTH = 8
"""Nested arrays."""
_TOO_LONG = f"it sent an answer of more than {MAX_ANSWER_BYTES} bytes"


class _Call(NamedTuple):
    """Call of a script."""

    script: str
    key: str
    arguments: list[str | int]


class _BoundedReader:
    """Bounded reads from Redis: a server declares the length of its response itself, and without a bound any
    length would be buffered."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self.left = MAX_ANSWER_BYTES

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def readexactly(self, size: int) -> bytes:
        self._take(size)
        return await self._stream.readexactly(size)

    async def readline(self) -> bytes:
        try:
            line = await self._stream.readline()
        except ValueError as error:  # the line is longer than the stream's buffer
            raise InvalidResponse(_TOO_LONG) from error
        self._take(len(line))
        return line

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise InvalidResponse(_TOO_LONG)


class _BoundedParser(_AsyncRESP2Parser):
    """In Python: hiredis buffers endless responses, and allocates each array at once."""

    def on_connect(self, connection: redis.asyncio.Connection) -> None:
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        assert self._stream is not None
        self._bounded = _BoundedReader(self._stream)
        self._stream = cast(asyncio.StreamReader, self._bounded)

    async def read_response(self, disable_decoding: bool = False) -> Any:
        self._bounded.left = MAX_ANSWER_BYTES
        self._depth = 0
        return await super().read_response(disable_decoding)

    async def _read_response(self, disable_decoding: bool = False) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidResponse(f"it sent an answer that is nested deeper than {MAX_DEPTH} arrays")
        try:
            return await super()._read_response(disable_decoding)
        finally:
            self._depth -= 1


class _AtOnce(redis.asyncio.Connection):
    """Closes at once: a graceful close would wait for a server that does not read, or sends no
    close_notify."""

    def __init__(self, *, lookup: Lookup, **options: Any) -> None:
        super().__init__(**options)
        self._lookup = lookup
        self._reached = ""
        """The address that its host resolved to."""

    def _connection_arguments(self) -> dict[str, Any]:
        arguments = {**super()._connection_arguments(), "host": self._reached}
        return arguments | {"server_hostname": self.host} if "ssl" in arguments else arguments

    async def _connect(self) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await self._lookup.connected(self._connect_to)

    async def _connect_to(self, address: str) -> None:
        self._reached = address
        await super()._connect()  # type: ignore[no-untyped-call]

    async def disconnect(self, *args: Any, **options: Any) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(*args, **options)


class _TlsConnection(_AtOnce, redis.asyncio.SSLConnection):
    """Uses an existing TLS context: the library would create its own in the event loop."""

    def __init__(self, *, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context.context = context


class RedisTransport:
    """One Redis server. Connects when there is something to send, and again after every failure."""

    def __init__(self, address: Address, access: RedisAccess) -> None:
        self._address = address
        self._lookup = Lookup(address.host)
        self._access = access
        self._client: redis.asyncio.Redis | None = None
        self._name = uuid.uuid4().hex
        self._is_known = False
        self._log = FewLines(log)
        self.notice = ""

    async def _connect(self) -> redis.asyncio.Redis:
        """Raises Unreachable."""
        options: dict[str, Any] = {
            "connection_class": _AtOnce,
            "parser_class": _BoundedParser,
            "lookup": self._lookup,
            "host": self._address.host,
            "port": self._address.port or DEFAULT_PORT,
            "username": self._access.username,
            "password": self._access.password,
            "socket_timeout": TIMEOUT_S,
            "socket_connect_timeout": TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        if self._access.tls:
            options |= {
                "connection_class": _TlsConnection,
                "context": await asyncio.to_thread(self._access.context),
            }
        pool = redis.asyncio.ConnectionPool(**options)
        client = redis.asyncio.Redis(connection_pool=pool, single_connection_client=True)
        client.auto_close_connection_pool = True
        return client

    async def exchange(
        self, claims: Sequence[tuple[str, Claim]], presence: Presence | None
    ) -> tuple[list[Answer], Standing | None]:
        calls = [
            _Call(redis_script.CLAIM, account, redis_script.arguments(claim)) for account, claim in claims
        ]
        if presence is not None:
            noted = redis_members.arguments(self._name, presence)
            calls.append(_Call(redis_members.NOTE, redis_members.KEY, noted))
        try:
            async with asyncio.timeout(EXCHANGE_S):
                results = await self._call(calls)
        except (RedisError, OSError, ValueError, EOFError, RuntimeError) as error:
            # uvloop raises RuntimeError for a connection that closes while it opens.
            await self._drop()
            raise Unreachable(explained(error, self._access, self._is_known)) from error
        except BaseException:
            # Otherwise outstanding responses on this connection would be taken for those to the next calls.
            await self._drop()
            raise
        self._is_known = True
        standing = self._standing(calls.pop(), results.pop()) if presence is not None else None
        return [self._parsed(*each) for each in zip(calls, results, strict=True)], standing

    def _standing(self, call: _Call, result: Any) -> Standing | None:
        """The standing of this process; None if it failed. A failure here does not stop leases, nor the
        counting of gateways with leases of the same account."""
        self._log.settle()
        if isinstance(result, ResponseError):
            if not (redis_acl.is_denial(result) or OF_ONE_KEY in str(result)):
                raise Unreachable(self._explained(call, result))
            said = self._explained(call, result)
            notice = type(said)(f"it does not count gateways: {said}")
            if notice != self.notice:
                self._log.warning("the Redis at %s counts limits, but %s", self._address, notice)
            self.notice = notice
            return None
        self.notice = ""
        try:
            return redis_members.standing(result)
        except (ValueError, TypeError):
            return None

    def _parsed(self, call: _Call, result: Any) -> Answer:
        """Raises Unreachable for an error that is not about this key."""
        if isinstance(result, ResponseError):
            is_denied = redis_acl.is_denial(result)
            is_of_key = not redis_acl.forbids_command(result) if is_denied else OF_ONE_KEY in str(result)
            if not is_of_key:
                # Such as the error of a replica, or of a server that is full or still loading: it counts
                # nothing.
                raise Unreachable(self._explained(call, result))
            return self._explained(call, result)
        try:
            return redis_script.grant(result)
        except (ValueError, TypeError, AssertionError):
            return Refused.with_public(f"an answer that is none: {result!r:.80}", NO_REDIS)

    def _explained(self, call: _Call, error: ResponseError) -> Refused:
        if redis_acl.is_denial(error):
            return Denied(redis_acl.denial(error, call.script, call.key, self._access.username))
        return explained(error, self._access, is_known=True)

    async def _call(self, calls: Sequence[_Call]) -> list[Any]:
        """The result of each script, or a ResponseError."""
        results = await self._send(calls, frozenset())
        unknown = [at for at, result in enumerate(results) if isinstance(result, NoScriptError)]
        if unknown:
            again = [calls[at] for at in unknown]
            told = await self._send(again, {call.script for call in again})
            for at, result in zip(unknown, told, strict=True):
                results[at] = result
        return results

    async def _send(self, calls: Sequence[_Call], unknown: Set[str]) -> list[Any]:
        """Send calls by the digests of their scripts; `unknown` scripts are sent in full, each once: Redis
        caches them."""
        if self._client is None:
            self._client = await self._connect()
        pipeline = self._client.pipeline(transaction=False)
        told: set[str] = set()
        for script, key, arguments in calls:
            if script in unknown and script not in told:
                told.add(script)
                pipeline.eval(script, 1, key, *map(str, arguments))
            else:
                pipeline.evalsha(redis_script.digest(script), 1, key, *map(str, arguments))
        return await pipeline.execute(raise_on_error=False)

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        await self._drop()


class NoTransport:
    """An account that cannot be reached, for a reason that the operator can fix."""

    notice = ""

    def __init__(self, why: str) -> None:
        self._why = why

    async def exchange(
        self, claims: Sequence[tuple[str, Claim]], presence: Presence | None
    ) -> tuple[list[Answer], Standing | None]:
        raise Unreachable(self._why)

    async def close(self) -> None:
        pass
