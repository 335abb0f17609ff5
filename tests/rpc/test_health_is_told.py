"""The health service tells the state of each service, to grpcio's client."""

import grpc
import pytest

from headgate import rpc

READY = {"": True, "envoy.service.ext_proc.v3.ExternalProcessor": False}
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def asking(name: str) -> bytes:
    """HealthCheckRequest."""
    return b"\x0a" + bytes([len(name)]) + name.encode() if name else b""


@pytest.fixture
async def ask(serve, grpcio_channel):
    async def start(otherwise=None):
        checks = {name: lambda name=name: READY[name] for name in READY}
        _, port = await serve(rpc.health.services(checks, otherwise))
        channel = await grpcio_channel(port)

        async def call(method: str, request: bytes) -> bytes:
            return await channel.unary_unary(f"/grpc.health.v1.Health/{method}")(request)

        return call

    return start


async def test_each_service_has_its_state(ask):
    """Unknown ones too."""
    call = await ask()
    assert await call("Check", asking("")) == SERVING
    assert await call("Check", asking("envoy.service.ext_proc.v3.ExternalProcessor")) == NOT_SERVING
    assert await call("Check", asking("other")) == SERVICE_UNKNOWN


async def test_unknown_services_may_have_a_state(ask):
    """As the reference picker has one for all names."""
    call = await ask(lambda: True)
    assert await call("Check", asking("other")) == SERVING
    assert await call("Check", asking("envoy.service.ext_proc.v3.ExternalProcessor")) == NOT_SERVING


async def test_all_are_listed(ask):
    """As a map of names."""
    call = await ask()
    name = b"envoy.service.ext_proc.v3.ExternalProcessor"
    entry = b"\x0a" + bytes([len(name)]) + name + b"\x12\x02" + NOT_SERVING
    assert (
        await call("List", b"")
        == b"\x0a\x06\x0a\x00\x12\x02" + SERVING + b"\x0a" + bytes([len(entry)]) + entry
    )


async def test_watch_is_unimplemented(ask):
    """Clients fall back to Check."""
    call = await ask()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call("Watch", asking(""))
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "request_bytes", [b"\x0a\x05abc", b"\x0a\xff", b"\xff" * 20, b"\x0b", b"\x0a\x02\xff\xfe"]
)
async def test_malformed_requests_are_refused(ask, request_bytes):
    """With a status, and nothing else ends."""
    call = await ask()
    with pytest.raises(grpc.aio.AioRpcError, match="not a HealthCheckRequest"):
        await call("Check", request_bytes)
    assert await call("Check", b"\x10\x07\x1d1234\x0a\x00\x21" + b"x" * 8) == SERVING, (
        "other fields are skipped"
    )


async def test_a_method_takes_one_message(serve, connect):
    """Not none, and not two."""
    from rpc_calls import Received

    _, port = await serve({"/test.Test/Double": rpc.unary(lambda call, request: request * 2)})
    client = await connect(port)
    for messages, code in (([], rpc.status.INTERNAL), ([b"a"], 0), ([b"a", b"b"], rpc.status.INTERNAL)):
        received = Received()
        call = client.call("/test.Test/Double", received)
        for message in messages:
            call.send(message)
        call.half_close()
        assert (await received.ended).code == code
        assert received.messages == ([b"aa"] if code == 0 else [])
