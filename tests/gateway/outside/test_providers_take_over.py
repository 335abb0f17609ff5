"""External providers: they get the request's body and nothing else, and the answer tells that they served."""

import json

import pytest

from headgate import routing

CHAT = {"model": "big", "messages": [{"role": "user", "content": "How deep?"}]}


def answers(call):
    """As OpenAI does, which names a dated version of its model."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    body = {"model": call.json["model"] + "-2026-01-01", "choices": [], "usage": usage}
    extra = {"set-cookie": "a=b", "openai-organization": "org-1", "x-ratelimit-limit-tokens": "5"}
    call.answer(json.dumps(body).encode(), **{"content-type": "application/json"}, **extra)


def _tokens(gateway, direction):
    return gateway.metric("headgate_gateway_tokens_total", model="cloud/mini", direction=direction)


async def test_a_model_without_endpoints(outside, provider_key):
    """The provider serves, and headers, log and metrics tell which model of whom."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    response = await gateway.ask(CHAT)
    assert (response.status, response.json["model"]) == (200, "mini-2026-01-01")
    assert response.header("x-headgate-model") == "cloud/mini"
    assert response.header("x-headgate-fallback") == "big;no-endpoint"
    (call,) = cloud.calls
    assert (call.method, call.target) == ("POST", "/v1/chat/completions")
    assert call.json == CHAT | {"model": "mini"}
    await gateway.idle()
    labels = {"pool": "default/big", "reason": "no-endpoint", "to": "provider/cloud"}
    assert gateway.metric("headgate_gateway_fallbacks_total", **labels) == 1
    assert gateway.metric("headgate_gateway_requests_total", model="cloud/mini") == 1
    assert _tokens(gateway, "input") == 7
    (line,) = gateway.log_lines()
    assert "model=cloud/mini" in line
    assert "fallbacks=big:no-endpoint" in line
    assert provider_key not in line


async def test_only_what_is_listed_leaves(outside, provider_key):
    """No credentials, cookies, addresses, ids or traces of the client, and no header that it made up."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud, settings={"clients_trusted_networks": ("127.0.0.0/8",)})
    secret = {
        "authorization": "Bearer client",
        "x_api_key": "client",
        "cookie": "client=1",
        "x_forwarded_for": "10.0.0.1",
        "x_request_id": "client",
        "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
        "x_headgate_explain": "1",
        "x_gateway_inference_fairness_id": "client",
        "user_agent": "client",
        "anthropic_beta": "client",
        "openai_organization": "client",
    }
    response = await gateway.ask(CHAT, "/v1/chat/completions?client=1", **secret)
    assert response.status == 200
    (call,) = cloud.calls
    sent = dict(call.headers)
    length = str(len(call.body))
    assert sent == {
        "host": f"127.0.0.1:{cloud.port}",
        "user-agent": "headgate",
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "x-headgate-hops": "1",
        "authorization": f"Bearer {provider_key}",
        "content-type": "application/json",
        "content-length": length,
    }
    assert call.target == "/v1/chat/completions"


async def test_only_what_is_listed_comes_back(outside):
    """No cookies, and nothing about the operator's account."""
    gateway = await outside.gateway(await outside.provider(answers))
    response = await gateway.ask(CHAT)
    for name in ("set-cookie", "openai-organization", "x-ratelimit-limit-tokens"):
        assert response.header(name) is None
    assert response.header("content-type") == "application/json"


async def test_anthropics_api(outside, provider_key):
    """The key is where that API has it, and the version is the client's, or a usual one."""

    def serve(call):
        body = {"type": "message", "usage": {"input_tokens": 5, "output_tokens": 2}}
        call.answer(json.dumps(body).encode(), **{"content-type": "application/json"})

    cloud = await outside.provider(serve)
    gateway = await outside.gateway(cloud, shape="anthropic")
    await gateway.ask(CHAT, "/v1/messages", x_api_key="client")
    await gateway.ask(CHAT, "/v1/messages?beta=true", anthropic_version="2024-01-01", anthropic_beta="new")
    first, second = (dict(call.headers) for call in cloud.calls)
    assert [call.target for call in cloud.calls] == ["/v1/messages"] * 2
    assert (first["x-api-key"], first["anthropic-version"]) == (provider_key, "2023-06-01")
    assert "authorization" not in first
    assert "anthropic-beta" not in first
    assert (second["anthropic-version"], second["anthropic-beta"]) == ("2024-01-01", "new")
    await gateway.idle()
    assert _tokens(gateway, "output") == 4


async def test_features_in_several_lines(outside):
    """They are one list."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud, shape="anthropic")
    body = json.dumps(CHAT).encode()
    head = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\nanthropic-beta: one\r\nAnthropic-Beta: two\r\n"
    client = await gateway.connect()
    client.send(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
    assert (await client.response()).status == 200
    assert cloud.calls[0].header("anthropic-beta") == "one, two"


@pytest.mark.parametrize(
    ("hops", "sent"), [(None, "1"), ("1", "2"), ("2", "3"), ("3", None), ("99", None), ("-1", None)]
)
async def test_circles_of_gateways_end(outside, hops, sent):
    """A provider may be a gateway whose provider is this gateway: without an end, one request would become
    hundreds each second."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    response = await gateway.ask(CHAT, **({} if hops is None else {"x_headgate_hops": hops}))
    assert response.status == (200 if sent else 503)
    assert [call.header("x-headgate-hops") for call in cloud.calls] == [sent] * bool(sent)


@pytest.mark.parametrize(
    ("shape", "path"),
    [
        ("anthropic", "/v1/chat/completions"),
        ("openai", "/v1/messages"),
        ("openai", "/tokenize"),
    ],
)
async def test_the_other_shape(outside, shape, path):
    """Nothing is translated: the provider is passed over."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud, shape=shape)
    response = await gateway.ask(CHAT, path)
    assert response.status == 503
    assert response.header("x-headgate-fallback") is None
    assert not cloud.calls


async def test_without_the_setting_nothing_leaves(outside, start_gateway):
    """An annotation alone sends nothing outside."""
    cloud = await outside.provider(answers)
    outside.write(cloud={"url": f"https://127.0.0.1:{cloud.port}"})
    gateway = await start_gateway()
    outside.serve(gateway, "provider=cloud")
    response = await gateway.ask(CHAT)
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert not cloud.connections


async def test_clients_cannot_ask_a_provider(outside):
    """The names of its models are no models of the gateway."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    for name in ("cloud/mini", "provider=cloud", "mini", "provider/cloud"):
        assert (await gateway.ask(CHAT | {"model": name})).status == 404
    assert not cloud.connections


@pytest.mark.parametrize(("named", "served"), [("mini", "mini"), ("large", "large"), ("huge", None)])
async def test_its_models(outside, named, served):
    """Only those of the settings may be named: others may cost anything."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud, f"provider=cloud/{named}", models=["mini", "large"])
    response = await gateway.ask(CHAT)
    assert response.status == (200 if served else 503)
    assert [call.json["model"] for call in cloud.calls] == [served] * bool(served)


@pytest.mark.parametrize("size", [1, 400_000])
@pytest.mark.parametrize(
    "members",
    [
        '"model":"huge","messages":[],"model":"big"',
        '"model":"big","messages":[],"Model":"huge"',
        '"MODEL":"huge","messages":[],"model":"big"',
        '"mod\\u0065l":"huge","messages":[],"model":"big"',
    ],
)
async def test_bodies_that_name_several_models(outside, members, size):
    """A provider whose parser takes the first of them, or ignores case, would serve one that it may not be
    asked for, at the operator's cost."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    response = await gateway.ask(f'{{{members},"user":"{"x" * size}"}}'.encode())
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert not cloud.calls


async def test_models_further_inside(outside):
    """Members of others are no models, and escapes are read."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    body = b'{"metadata":{"model":"a","Model":"b"},"mod\\u0065l":"big","models":1,"user":"\\"model\\":"}'
    assert (await gateway.ask(body)).status == 200
    assert cloud.calls[0].json["model"] == "mini"


async def test_errors_of_the_fleet(outside, start_endpoint):
    """The pool's own endpoints come first."""
    cloud = await outside.provider(answers)
    broken = await start_endpoint(behave=lambda call: call.reset())
    gateway = await outside.gateway(cloud, big=[broken])
    response = await gateway.ask(CHAT)
    assert response.header("x-headgate-fallback") == "big;error"
    assert len(broken.calls) == 1


async def test_streams_pass_through(outside):
    """Usage that the client did not ask for stays out of the stream, and is counted."""

    def stream(call):
        assert call.json["stream_options"] == {"include_usage": True}
        usage = {"prompt_tokens": 9, "completion_tokens": 1}
        events = [{"model": "mini", "choices": [{}]}, {"model": "mini", "choices": [], "usage": usage}]
        data = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events)
        call.answer(data + b"data: [DONE]\n\n", **{"content-type": "text/event-stream"})

    gateway = await outside.gateway(await outside.provider(stream))
    response = await gateway.ask(CHAT | {"stream": True})
    assert response.body.count(b"data:") == 2
    assert response.header("x-headgate-model") == "cloud/mini"
    await gateway.idle()
    assert _tokens(gateway, "input") == 9


@pytest.mark.parametrize("is_stream", [False, True])
async def test_hidden_tokens_are_counted(outside, is_stream):
    """However much a client has the provider repeat after the counts."""
    usage = {"input_tokens": 7, "output_tokens": 30_000}
    metadata = {f"key-{number}": "x" * 512 for number in range(16)}

    def serve(call):
        body = {"object": "response", "output": [], "usage": usage, "metadata": call.json["metadata"]}
        if is_stream:
            event = {"type": "response.completed", "response": body}
            begun = b'data: {"type":"response.created","response":{"usage":null}}\n\n'
            events = begun + b"data: %b\n\n" % json.dumps(event).encode()
            call.answer(events, **{"content-type": "text/event-stream"})
        else:
            call.answer(json.dumps(body).encode(), **{"content-type": "application/json"})

    gateway = await outside.gateway(await outside.provider(serve))
    body = {"model": "big", "input": "How deep?", "stream": is_stream, "metadata": metadata}
    assert (await gateway.ask(body, "/v1/responses")).status == 200
    await gateway.idle()
    assert _tokens(gateway, "output") == 30_000


async def test_large_bodies(outside):
    """A body that is never copied is renamed as well."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    text = "x" * 400_000
    assert (await gateway.ask(CHAT | {"prompt": text})).status == 200
    assert cloud.calls[0].json == CHAT | {"model": "mini", "prompt": text}


async def test_connections_are_kept(outside):
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud)
    for _ in range(3):
        assert (await gateway.ask(CHAT)).status == 200
    outside.serve(gateway, "provider=cloud")  # a new snapshot closes none of them
    assert (await gateway.ask(CHAT)).status == 200
    assert len(cloud.connections) == 1


async def test_its_limit(outside):
    """A provider has a budget of its own, which its requests are booked on."""
    cloud = await outside.provider(answers)
    gateway = await outside.gateway(cloud, limits={"unit": "day", "input_tokens": 1000})
    response = await gateway.ask(CHAT)
    assert response.header("x-ratelimit-limit-tokens") == "1000"
    await gateway.idle()
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    assert limit.input.budget.available(gateway.shell.now()) == pytest.approx(993, abs=1)
    long = CHAT | {"messages": [{"role": "user", "content": "word " * 5000}]}
    response = await gateway.ask(long)
    assert (response.status, response.json["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "provider/cloud" in response.json["error"]["message"]
    outside.serve(gateway, "provider=cloud")
    assert list(gateway.shell.plane.routes.limits.by_route) == [
        routing.Provider(name="cloud", shape="openai", host="", models=("mini",), timeout_s=1.0).key
    ]


async def test_the_decision_is_told(outside):
    trusted = {"clients_trusted_networks": ("127.0.0.0/8",)}
    gateway = await outside.gateway(await outside.provider(answers), settings=trusted)
    response = await gateway.ask(CHAT, x_headgate_explain="1")
    decision = response.header("x-headgate-decision")
    assert "left=big:no-endpoint" in decision
    assert "target=provider/cloud" in decision
