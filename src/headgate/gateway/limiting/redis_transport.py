"""Claims to a Redis server, on one connection, a pipeline for each exchange."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from typing import Any, cast

import msgspec
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from headgate.api.addresses import Address
from headgate.flow.limits import Claim
from headgate.gateway.limiting import redis_script
from headgate.gateway.limiting.transport import Answer, Refused, Unreachable

DEFAULT_PORT = 6379
OF_ONE_KEY = "WRONGTYPE"
"""In an error that is not about the server: somebody else keeps something under the key."""
TIMEOUT_S = 2.0
"""For a connection, and for an answer on it."""


class RedisAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How one gets into a Redis server."""

    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca_file: str | None = None
    """Whose certificates are believed; without it, whom the system believes."""


class RedisTransport:
    """One Redis server. Connects when there is something to say, and anew after every failure."""

    def __init__(self, address: Address, access: RedisAccess) -> None:
        self._address = address
        self._access = access
        self._client: redis.asyncio.Redis | None = None
        self._name = uuid.uuid4().hex

    def _connect(self) -> redis.asyncio.Redis:
        access = self._access
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": access.ca_file} if access.tls else {}
        return redis.asyncio.Redis(
            host=self._address.host,
            port=self._address.port or DEFAULT_PORT,
            username=access.username,
            password=access.password,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            single_connection_client=True,
            retry=Retry(NoBackoff(), 0),
            client_name="headgate",
            protocol=2,
            **tls,
        )

    async def exchange(self, claims: Sequence[tuple[str, Claim]], count: bool) -> tuple[list[Answer], int]:
        calls: list[tuple[str, str, list[str | int]]] = [
            (redis_script.CLAIM, f"{redis_script.PREFIX}:{account}", redis_script.arguments(claim))
            for account, claim in claims
        ]
        if count:
            present: list[str | int] = [self._name, redis_script.PRESENT_FOR_S]
            calls.append((redis_script.COUNT, redis_script.PRESENT_KEY, present))
        try:
            results = await self._call(calls)
        except (RedisError, OSError, ValueError, EOFError) as error:
            await self._drop()
            raise Unreachable(str(error) or type(error).__name__) from error
        except BaseException:
            # What is still to come on this connection would be taken for the answers to what is asked next.
            await self._drop()
            raise
        for each in results:
            if isinstance(each, ResponseError) and OF_ONE_KEY not in str(each):
                # Such as a replica says it, or a server that is full or still loading: it counts nothing.
                raise Unreachable(str(each))
        members = results.pop() if count else 0
        return [_answer(each) for each in results], members if isinstance(members, int) else 0

    async def _call(self, calls: Sequence[tuple[str, str, list[str | int]]]) -> list[Any]:
        """What each script returned, or a ResponseError."""
        results = await self._send(calls)
        unknown = [at for at, result in enumerate(results) if isinstance(result, NoScriptError)]
        if unknown:
            assert self._client is not None
            for script in {calls[at][0] for at in unknown}:
                await cast("Awaitable[Any]", self._client.script_load(script))
            again = await self._send([calls[at] for at in unknown])
            for at, result in zip(unknown, again, strict=True):
                results[at] = result
        return results

    async def _send(self, calls: Sequence[tuple[str, str, list[str | int]]]) -> list[Any]:
        if self._client is None:
            self._client = self._connect()
        pipeline = self._client.pipeline(transaction=False)
        for script, key, arguments in calls:
            pipeline.evalsha(redis_script.digest(script), 1, key, *map(str, arguments))
        return await pipeline.execute(raise_on_error=False)

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        await self._drop()


class NoTransport:
    """An account that cannot be reached, for a reason that a person can mend."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def exchange(self, claims: Sequence[tuple[str, Claim]], count: bool) -> tuple[list[Answer], int]:
        raise Unreachable(self._why)

    async def close(self) -> None:
        pass


def _answer(result: Any) -> Answer:
    if isinstance(result, ResponseError):
        return Refused(str(result))
    try:
        return redis_script.grant(result)
    except (ValueError, TypeError, AssertionError):
        return Refused(f"an answer that is none: {result!r:.80}")
