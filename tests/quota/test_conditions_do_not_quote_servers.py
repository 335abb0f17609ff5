"""What a server says goes to the log only; the condition of a ModelRoute has a category."""

import asyncio

import pytest

from headgate.api.marks import Address
from headgate.flow.limits import LeasedBudget
from headgate.quota.conditions import _reasons
from headgate.quota.redis_access import (
    CLOSED,
    NO_REDIS,
    NO_TLS,
    REFUSED,
    UNAUTHENTICATED,
    RedisAccess,
)
from headgate.quota.redis_transport import RedisTransport
from headgate.quota.transport import Refused, Unreachable, public

SECRET = b"secret-5bd1"
ACCOUNT = "kthena:ratelimit:m:input"


async def why(behave, access=None):
    """Why a server that behaves so does not count, in full and as objects say it."""
    server = await asyncio.start_server(behave, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = RedisTransport(Address.parse(f"127.0.0.1:{port}"), access or RedisAccess())
    claim = LeasedBudget(ACCOUNT, "member", 100, 60, 0.0, lambda budget: None, 1).claim(0.0)
    try:
        answers, _ = await transport.exchange([(ACCOUNT, claim)], None)
        told = answers[0]
        assert isinstance(told, Refused)
    except Unreachable as error:
        told = error.why
    finally:
        await transport.close()
        server.close()
    return str(told), public(told)


def answering(answer):
    """To each command, or by closing the connection."""

    async def behave(reader, writer):
        while answer and (data := await reader.read(65536)):
            writer.write(answer * max(data.count(b"SETINFO") + data.count(b"EVALSHA"), 1))
            await writer.drain()
        writer.close()

    return behave


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"220 %b ESMTP\r\n" % SECRET, NO_REDIS),
        (b"HTTP/1.1 400 %b\r\n\r\n" % SECRET, NO_REDIS),
        (b"-ERR %b\r\n" % SECRET, "it answers with an error"),
        (b"-%b\r\n" % SECRET, "it answers with an error"),
        (b"-NOAUTH %b\r\n" % SECRET, UNAUTHENTICATED),
        (b"-WRONGTYPE %b\r\n" % SECRET, "it answers with the error WRONGTYPE"),
        (b"$11\r\n%b\r\n" % SECRET, NO_REDIS),
    ],
    ids=lambda value: value.decode(errors="replace")[:12].strip() if isinstance(value, bytes) else "",
)
async def test_text_of_a_server_is_left_out(answer, kind):
    """Whatever speaks at an address that a route names."""
    told, shown = await why(answering(answer))
    assert SECRET.decode() in told
    assert shown.startswith(kind)
    assert SECRET.decode() not in shown


async def test_commands_that_a_server_makes_up_are_left_out():
    """The name of a command that its ACL forbids is one of those that the gateway calls."""
    denied = b"-NOPERM this user has no permissions to run the '%b' command\r\n" % SECRET
    _, shown = await why(answering(denied))
    assert "its ACL forbids the command" in shown
    assert SECRET.decode().upper() not in shown.upper()


async def test_only_what_may_be_tls_hints_at_tls(held_port):
    """A refused connection is refused with TLS too."""
    transport = RedisTransport(Address("127.0.0.1", held_port()), RedisAccess())
    claim = LeasedBudget(ACCOUNT, "member", 100, 60, 0.0, lambda budget: None, 1).claim(0.0)
    with pytest.raises(Unreachable) as caught:
        await transport.exchange([(ACCOUNT, claim)], None)
    assert public(caught.value.why) == REFUSED
    assert "TLS" not in caught.value.why
    _, shown = await why(answering(b""))
    assert shown == f"{CLOSED}; if it speaks TLS, set rate_limits.redis_tls"
    _, shown = await why(answering(b"-ERR no TLS\r\n"), RedisAccess(tls=True))
    assert shown == f"{NO_TLS}; rate_limits.redis_tls is set: does it speak TLS there?"


def test_equal_reasons_are_given_once():
    away = {f"gateway-{number}": REFUSED for number in range(4)} | {"other": CLOSED}
    assert _reasons(away) == [f"4 processes: {REFUSED}", f"other: {CLOSED}"]
