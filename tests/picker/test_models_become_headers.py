"""Body-based routing: the model of a request is a header before the proxy chooses the route."""

import asyncio
import contextlib
import json

import envoy_process
import httpx2
import msgspec
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from picker_world import BUFFERED, Proxy, completion

from headgate import api, apiserver, cluster, loop_turns, rpc
from headgate.picker.base_models import BaseModels
from headgate.picker.body_router import RouterSettings
from headgate.picker.router_service import run_router
from headgate.picker.settings import Listening

LABELS = {"inference.networking.k8s.io/bbr-managed": "true"}
ENVOY = envoy_process.find()


def config_map(name, base, adapters=(), labels=LABELS):
    metadata = api.ObjectMeta(name=name, namespace="default", labels=labels)
    return api.ConfigMap(metadata=metadata, data={"baseModel": base, "adapters": json.dumps(list(adapters))})


@pytest.fixture
async def router(tmp_path, unused_tcp_port):
    """Starts one; returns its port, a way to open streams, and the client of its API server."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(apiserver.running(apiserver.Config(tmp_path, port=0)))
        client = await stack.enter_async_context(cluster.Client.from_kubeconfig(server.kubeconfig))
        await client.create(config_map("llama", "llama-3", ["sql", "chat"]))
        await client.create(config_map("other", "mistral", ["sql"], labels={}))
        loop = asyncio.get_running_loop()
        stop, ready = asyncio.Event(), loop.create_future()
        listening = Listening(
            host="127.0.0.1", grpc_port=0, health_port=0, metrics_port=unused_tcp_port, is_secure=False
        )
        run = run_router(
            RouterSettings(), listening, server.kubeconfig, None, stop, ready.set_result, drain_s=1
        )
        task = asyncio.create_task(run)
        port = await ready
        connection = await rpc.connect("127.0.0.1", port, loop_turns.Turns(loop))
        yield port, connection, client
        connection.close()
        stop.set()
        await task


@pytest.mark.parametrize(
    ("name", "base"), [("sql", "llama-3"), ("llama-3", "llama-3"), ("mistral", None), (" padded ", None)]
)
async def test_the_model_and_its_base_model(router, name, base):
    """By ConfigMaps that have the label; the body stays as it is."""
    proxy = Proxy(router[1])
    told = await proxy.ask(completion(name), cut=7)
    assert told.headers["x-gateway-model-name"] == name.strip()
    assert told.headers.get("x-gateway-base-model-name") == base
    assert (told.body, told.ends) == (completion(name), 1)


@pytest.mark.parametrize("body", [b'{"prompt":"x"}', b'{"model":null}', b'{"model":3}', b'{"model":"a\\nb"}'])
async def test_bodies_without_a_usable_model(router, body):
    """They pass without the header."""
    told = await Proxy(router[1]).ask(body)
    assert "x-gateway-model-name" not in told.headers
    assert told.body == body


async def test_bodies_that_are_not_json(router):
    """400."""
    told = await Proxy(router[1]).ask(b"{")
    assert told.status.code == 400
    assert told.body.startswith(b"inference error: BadRequest - ")


async def test_long_bodies(router):
    """They are read in a thread."""
    body = completion("sql", prompt="x" * 3_000_000)
    proxy = Proxy(router[1])
    proxy.headers()
    for at in range(0, len(body), 60_000):
        proxy.body(body[at : at + 60_000], ends=at + 60_000 >= len(body))
    told = await proxy.reply()
    assert (told.headers["x-gateway-model-name"], told.body) == ("sql", body)


async def test_buffered_bodies_and_responses(router):
    """The headers are answered at once; the response passes."""
    proxy = Proxy(router[1], request_mode=BUFFERED, response_mode=BUFFERED)
    proxy.headers()
    assert (await proxy.next()).WhichOneof("response") == "request_headers"
    proxy.body(completion("chat"))
    common = (await proxy.next()).request_body.response
    assert common.clear_route_cache
    assert not common.HasField("body_mutation")
    assert common.header_mutation.set_headers[0].header.raw_value == b"chat"
    proxy.respond()
    assert (await proxy.next()).WhichOneof("response") == "response_headers"
    proxy.send(response_body=pb.HttpBody(body=b"{}", end_of_stream=True))
    assert (await proxy.next()).WhichOneof("response") == "response_body"


async def test_config_maps_are_followed(router):
    """One that is deleted counts no more."""
    _, connection, client = router
    await client.delete(api.ConfigMap, "llama", "default")
    async with asyncio.timeout(30):
        while "x-gateway-base-model-name" in (await Proxy(connection).ask(completion("sql"))).headers:
            await asyncio.sleep(0.02)


@pytest.mark.skipif(ENVOY is None, reason="there is no Envoy: run tools/fetch_envoy.sh")
async def test_envoy_chooses_the_route_by_the_header(router, tmp_path, unused_tcp_port_factory):
    """Of two routes, which match the model."""
    port = unused_tcp_port_factory()
    config = envoy_process.configuration(port, router[0], envoy_process.original_destination())
    (listener,) = config["static_resources"]["listeners"]
    (host,) = listener["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    for name in ("sql", "chat"):
        matched = {
            "prefix": "/",
            "headers": [{"name": "x-gateway-model-name", "string_match": {"exact": name}}],
        }
        said = {"status": 200, "body": {"inline_string": f"the pool of {name}"}}
        host["routes"].insert(0, {"match": matched, "direct_response": said})
    async with envoy_process.running(ENVOY, tmp_path, config) as url, httpx2.AsyncClient() as http:
        for name in ("sql", "chat"):
            response = await http.post(f"{url}/v1/completions", content=completion(name))
            assert response.text == f"the pool of {name}"


@pytest.mark.parametrize("adapters", ["[", "a: 1", "!!bool x", "[" * 100_000, "- a\n" * 70_000])
def test_a_list_that_cannot_be_read_leaves_the_base_model(caplog, adapters):
    """Told once; the ConfigMap is anybody's who may write to the namespace."""
    models = BaseModels()
    obj = config_map("llama", "llama-3")
    obj = msgspec.structs.replace(obj, data=obj.data | {"adapters": adapters})
    models.note(cluster.Change(cluster.ChangeKind.ADDED, None, obj))
    assert (models.of("llama-3"), models.of("a")) == ("llama-3", "")
    (told,) = caplog.messages
    assert told.startswith("ConfigMap default/llama: data.adapters ")
