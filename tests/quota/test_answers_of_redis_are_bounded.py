"""A server that answers as no Redis does costs little, and counts as one that is away."""

import asyncio
import contextlib
import random
import resource

import pytest

from headgate.api.marks import Address
from headgate.quota import redis_members, redis_script
from headgate.quota.lease_source import LeaseSource
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import RedisTransport

MB = 1 << 20
ENDLESS = b"x" * 65536
ANSWERS = {
    "a bulk string of 99 GB": (b"$99999999999\r\n", ENDLESS, "more than 65536 bytes"),
    "a bulk string of 4 GB in an array": (b"*1\r\n$4000000000\r\n", ENDLESS, "more than 65536 bytes"),
    "two thousand million items": (b"*2147483647\r\n", b":1\r\n" * 10_000, "more than 65536 bytes"),
    "arrays of arrays": (b"", b"*1\r\n" * 10_000, "nested deeper than 8"),
    "large arrays of arrays": (b"", b"*100000\r\n" * 1_000, "nested deeper than 8"),
    "a line without end": (b"+", ENDLESS, "more than 65536 bytes"),
    "an error without end": (b"-", ENDLESS, "more than 65536 bytes"),
    "a number without end": (b":", b"1" * 65536, "more than 65536 bytes"),
    "a negative length": (b"$-7\r\n", b"", ""),
    "no RESP": (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", "Protocol"),
}


class Hostile:
    """Answers every command in the same way, and goes on with it for 64 MB."""

    def __init__(self, begin: bytes, more: bytes) -> None:
        self._begin, self._more = begin, more
        self.sent = 0
        self.closed = 0

    async def start(self) -> Address:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return Address.parse(f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}")

    async def _serve(self, reader, writer) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                writer.write(self._begin)
                while self._more and self.sent < 64 * MB:
                    writer.write(self._more)
                    self.sent += len(self._more)
                    await writer.drain()
        self.closed += 1
        writer.transport.abort()

    def stop(self) -> None:
        self._server.close()


@pytest.fixture
async def connect():
    """Starts such a server, and a gateway's source that counts there."""
    started = []

    async def start(begin: bytes, more: bytes):
        server = Hostile(begin, more)
        transport = RedisTransport(await server.start(), RedisAccess())
        source = LeaseSource("redis", transport, asyncio.get_running_loop(), random.Random(0), 1.0, False)
        source.start()
        started.append((server, source))
        return server, source

    yield start
    for server, source in started:
        await source.close()
        server.stop()


@pytest.mark.parametrize(("begin", "more", "why"), ANSWERS.values(), ids=ANSWERS)
async def test_a_hostile_answer_closes_the_connection(connect, eventually, begin, more, why):
    """Soon, with little memory, and with a reason; requests go by the local share."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server, source = await connect(begin, more)
    budget = source.budget("kthena:ratelimit:m:input", 1000, 60)
    asked = asyncio.Event()
    source.ask(budget, 10, asked.set)
    await eventually(lambda: source.trouble)
    assert why in source.trouble
    await eventually(lambda: server.closed)
    assert server.sent < 16 * MB, "of which most waits in the buffers of the kernel"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    assert budget.take(1, asyncio.get_running_loop().time())


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("number", [b"nan", b"inf", b"-inf", b"1e400", b"9223372036854775807", b"-1e300"])
def test_numbers_that_are_none_are_refused(at, number):
    """A level that is not a number would make each request of the route a fault of its endpoint."""
    answer = [b"epoch", b"0", b"100", b"1000", b"1", b"1.5"]
    assert redis_script.grant(answer).level == 1000.0
    answer[at] = number
    with pytest.raises(ValueError, match=r"int\(\)|counts nothing|no amount"):
        redis_script.grant(answer)
    if at < 4:
        standing = [b"2", b"10", b"1.5"]
        standing[at - 1] = number
        with pytest.raises(ValueError, match=r"int\(\)|counts nothing|no amount"):
            redis_members.standing(standing)


def resp(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


async def test_requests_are_answered_whatever_a_redis_says(connect, eventually):
    """Its numbers are not used, and the limit goes on by the local share."""
    _, source = await connect(resp(b"e", b"0", b"9" * 19, b"nan", b"9" * 19, b"inf"), b"")
    budget = source.budget("kthena:ratelimit:m:input", 1000, 60)
    source.ask(budget, 10, lambda: None)
    await eventually(lambda: source.refusal({"kthena:ratelimit:m:input"}) or source.trouble)
    now = asyncio.get_running_loop().time()
    assert budget.take(1, now)
    assert 0 <= budget.available(now) <= 1000
