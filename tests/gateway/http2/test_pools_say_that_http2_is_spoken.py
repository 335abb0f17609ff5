"""appProtocol of an InferencePool: kubernetes.io/h2c is HTTP/2 with prior knowledge, or inside TLS."""

import msgspec
import pytest

from headgate import api, routing
from headgate.api import gie_v1
from headgate.simulator.server.tls import self_signed

HTTPS = {"headgate.dev/protocol": "https", "headgate.dev/tls-insecure": "true"}


def snapshot(endpoint, notes, app_protocol="kubernetes.io/h2c"):
    """One Pod, for the model "m"."""
    meta = {"name": "pool", "namespace": "default"}
    spec = {
        "selector": {"matchLabels": {"app": "llm"}},
        "targetPorts": [{"number": endpoint.port}],
        "appProtocol": app_protocol,
    }
    notes = {"headgate.dev/models": "m", **notes}
    pool = msgspec.convert({"metadata": {**meta, "annotations": notes}, "spec": spec}, gie_v1.InferencePool)
    ready = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    pod = msgspec.convert({"metadata": {**meta, "labels": {"app": "llm"}}, "status": ready}, api.Pod)
    return routing.translate([], [], [pod], (), routing.InferenceObjects(pools=[pool]))


def certificate(*protocols):
    context = self_signed("127.0.0.1").context
    context.set_alpn_protocols(list(protocols))
    return context


async def test_h2c_is_spoken(start_gateway, start_http2_endpoint):
    """The field alone is enough."""
    endpoint = await start_http2_endpoint(lambda call: call.answer(b"served"))
    gateway = await start_gateway()
    made = snapshot(endpoint, {})
    assert made.problems == ()
    gateway.shell.use(made)
    assert (await gateway.ask()).body == b"served"
    assert endpoint.calls[0].headers[":scheme"] == "http"


async def test_a_pool_that_changes_its_mind_is_followed(start_gateway, start_endpoint, start_http2_endpoint):
    """No idle connection of one protocol is used for the other."""
    endpoint, other = await start_http2_endpoint(lambda call: call.answer(b"2")), await start_endpoint(b"1")
    gateway = await start_gateway()
    for _ in range(2):
        gateway.shell.use(snapshot(endpoint, {}))
        assert (await gateway.ask()).body == b"2"
        gateway.shell.use(snapshot(other, {}, "http"))
        assert (await gateway.ask()).body == b"1"
    assert len(gateway.shell.all_connections()) == 1


@pytest.mark.every_loop
async def test_http2_is_spoken_inside_tls(start_gateway, start_http2_endpoint):
    """Where the endpoint offers it by ALPN."""
    endpoint = await start_http2_endpoint(
        lambda call: call.answer(b"served"), tls=certificate("h2", "http/1.1")
    )
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, HTTPS))
    client = await gateway.connect()
    for _ in range(2):
        client.post({"model": "m", "prompt": "x" * 100_000})
        assert (await client.response()).body == b"served"
    assert endpoint.calls[0].headers[":scheme"] == "https"
    assert len(endpoint.connections) == 1


@pytest.mark.every_loop
@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
async def test_an_endpoint_that_does_not_offer_it_gets_nothing(start_gateway, start_endpoint, protocols):
    """It is told as one that cannot be used, with the reason; whether it ends the handshake or goes on."""
    endpoint = await start_endpoint(b"served", tls=certificate(*protocols))
    gateway = await start_gateway()
    gateway.shell.use(snapshot(endpoint, HTTPS))
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert "does not offer HTTP/2 (ALPN h2)" in gateway.log_lines()[0]
    assert not endpoint.calls
