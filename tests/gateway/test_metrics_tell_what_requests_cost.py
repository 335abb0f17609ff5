"""Token pace, bytes, connections and ends are counted; labels are bounded and end with their objects."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headgate import api, routing
from headgate.dataplane.records import request_metrics
from headgate.gateway import gauges
from headgate.telemetry import Registry

PREFIX = "headgate_gateway_"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}\n\n'


async def stream(gateway, endpoint, at, *, per_token_s):
    """One stream of five tokens at a steady pace."""
    client = await gateway.connect()
    client.post({"model": "m", "stream": True})
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    call.write(b"%x\r\n%b\r\n" % (len(b"data: {}\n\n"), b"data: {}\n\n"))
    await client.head()
    assert await client.reader.readexactly(15)
    at[0] += 4 * per_token_s
    call.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(USAGE), USAGE))
    await client.reader.readuntil(b"0\r\n\r\n")


async def test_pace_of_tokens(gateway, endpoint):
    """The time from the first token to the end, over the tokens after the first."""
    at = [100.0]
    gateway.shell.services.now = lambda: at[0]
    await stream(gateway, endpoint, at, per_token_s=0.2)
    name = f"{PREFIX}time_per_output_token_seconds"
    assert gateway.metric(f"{name}_count", model="m", pool="default/pool") == 1
    assert gateway.metric(f"{name}_sum") == pytest.approx(0.2)
    assert gateway.metric(f"{name}_bucket", le="0.15") == 0


async def test_answers_at_once_have_no_pace(gateway, endpoint):
    """What is no stream, or has one token, says nothing about the time of a token."""
    endpoint.behave = lambda call: call.answer(b'{"usage":{"prompt_tokens":7,"completion_tokens":5}}')
    await gateway.ask()
    assert gateway.metric(f"{PREFIX}time_per_output_token_seconds_count") == 0


async def test_bytes_and_connections(gateway, endpoint):
    """Bodies in both directions, and how long each new connection took; a reused one took nothing."""
    endpoint.behave = lambda call: call.answer(b"x" * 1000)
    client = await gateway.connect()
    for _ in range(3):
        client.post(b'{"model":"m"}')
        await client.response()
    body_bytes = f"{PREFIX}body_bytes_total"
    assert gateway.metric(body_bytes, direction="in", pool="default/pool") == 3 * len(b'{"model":"m"}')
    assert gateway.metric(body_bytes, direction="out", pool="default/pool") == 3000
    assert gateway.metric(f"{PREFIX}upstream_connect_seconds_count", pool="default/pool") == 1


async def test_requests_and_streams_in_flight(gateway, endpoint):
    """They are counted when somebody looks, by pool."""
    registry = Registry()
    gauges.add_gauges(registry, gateway.shell)
    gateway.registry = registry
    clients = [await gateway.connect() for _ in range(3)]
    for client, is_stream in zip(clients, (True, True, False), strict=True):
        client.post({"model": "m", "stream": is_stream})
    calls = [await endpoint.call() for _ in clients]
    assert gateway.metric(f"{PREFIX}active_requests", pool="default/pool") == 3
    assert gateway.metric(f"{PREFIX}active_streams", pool="default/pool") == 2
    for call, client in zip(calls, clients, strict=True):
        call.answer()
        await client.response()
    assert gateway.metric(f"{PREFIX}active_requests", pool="default/pool") == 0


async def test_ends_have_an_outcome(start_gateway, start_endpoint):
    """The same status by two ways is told apart."""
    gateway = await start_gateway(await start_endpoint(behave=lambda call: call.answer(b"", "404 Not Found")))
    await gateway.ask()
    await gateway.ask({"model": "nobody"})
    requests = f"{PREFIX}requests_total"
    assert gateway.metric(requests, code="404", outcome="served", route="default/route") == 1
    assert gateway.metric(requests, code="404", outcome="model_not_found", model="unknown") == 1


def objects(models, pool="pool"):
    key = api.ObjectRef("ModelServer", "default", pool)
    rule = routing.Rule("rule", None, (routing.Target(key, 1),))
    routes = {
        model: (
            routing.Route(
                key=api.ObjectRef("ModelRoute", "default", model),
                name=f"default/{model}",
                model=model,
                adapters=(),
                rules=(rule,),
            ),
        )
        for model in models
    }
    return routing.Snapshot(models=routes, pools={key: routing.Pool(key=key)})


async def test_series_end_with_their_objects(start_gateway):
    """Those of a deleted route, model or pool are gone from the page; the others go on."""
    gateway = await start_gateway()
    for snapshot in (objects("ab"), objects("bc"), objects("bc", pool="other")):
        gateway.shell.use(snapshot)
        for model in snapshot.models:
            assert (await gateway.ask({"model": model})).status == 503
    await gateway.ask({"model": "nobody"})
    page = gateway.registry.render().decode()
    assert 'model="a"' not in page
    assert 'pool="default/pool"' not in page
    requests = f"{PREFIX}requests_total"
    assert gateway.metric(requests, route="default/b", pool="default/other") == 1
    gateway.shell.use(objects("b", pool="other"))
    assert gateway.metric(requests, route="default/b") == 1
    assert gateway.metric(requests, route="default/c") == 0
    assert gateway.metric(requests, model="unknown") == 1
    await gateway.ask({"model": "b"})
    assert gateway.metric(requests, route="default/b") == 2


async def test_models_beyond_the_most_are_counted_together(start_gateway, monkeypatch):
    """Their route, pool and status are still told; room that is given free is used again."""
    monkeypatch.setattr(request_metrics, "MAX_MODELS", 3)
    gateway = await start_gateway()
    names = [f"model-{place}" for place in range(5)]
    gateway.shell.use(objects(names))
    for name in names:
        await gateway.ask({"model": name})
    requests = f"{PREFIX}requests_total"
    assert gateway.metric(requests, model="other", pool="default/pool", code="503") == 2
    assert gateway.metric(requests, model="other", route="default/model-4") == 1
    gateway.shell.use(objects(names[2:]))
    await gateway.ask({"model": names[4]})
    assert gateway.metric(requests, model="model-4") == 1


async def test_page_in_openmetrics(gateway, endpoint):
    """A scraper that asks for it gets OpenMetrics, which its own strict parser reads; others get text."""
    endpoint.behave = lambda call: call.answer(b'{"usage":{"prompt_tokens":7,"completion_tokens":5}}')
    await gateway.ask()
    page, content_type = gateway.registry.page("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name for family in text_string_to_metric_families(page.decode())}
    assert f"{PREFIX}requests" in families
    _, content_type = gateway.registry.page("*/*")
    assert content_type.startswith("text/plain; version=")


async def test_time_before_an_endpoint_has_the_request(start_gateway, start_endpoint):
    """It has the attempts that failed, and not the answer; a request that was sent nowhere has none."""
    at = [100.0]

    def fail_late(call):
        at[0] += 3.0
        call.answer(b"busy", status="503 Service Unavailable")

    endpoints = [await start_endpoint(behave=fail_late) for _ in range(2)]
    gateway = await start_gateway(*endpoints, attempts=1, retry_interval_s=0.0)
    gateway.shell.services.now = lambda: at[0]
    await gateway.ask()
    name = f"{PREFIX}queue_seconds"
    assert gateway.metric(f"{name}_count", model="m", pool="default/pool") == 1
    assert gateway.metric(f"{name}_sum") == pytest.approx(3.0)
    gateway.serve([])
    await gateway.ask()
    assert gateway.metric(f"{name}_count", model="m", pool="default/pool") == 1
