"""An HTTPRoute's own fallbacks act on its pools, and precede those of the pool."""

import json
import types

import gateway_objects as objects
import pytest

from headgate import api, routing
from headgate.api.fallbacks import USUAL
from headgate.gateway.gateway_api import Ports
from headgate.routing import gateway_api

CHAT = {"model": "big", "messages": []}
POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool"}


def answers(call):
    body = json.dumps({"model": call.json["model"], "choices": []}).encode()
    call.answer(body, **{"content-type": "application/json", "x-of-server": "theirs"})


def _ref(name):
    return api.ObjectRef("InferencePool", "shop", name)


@pytest.fixture
async def serve(outside, held_port):
    """Serves pools on a port of a Gateway, by one route; returns the gateway, and the translation."""
    opened = []

    async def start(cloud, pools, annotations, *, rule=None, pool_fallback=None, models=None):
        gateway = await outside.gateway(cloud)
        made = {
            _ref(name): routing.Pool(
                key=_ref(name),
                endpoints=tuple(routing.Endpoint(name, "127.0.0.1", each.port) for each in endpoints),
                fallback=pool_fallback if name == "big" else None,
            )
            for name, endpoints in pools.items()
        }
        gateway.shell.use(routing.Snapshot(models=models or {}, pools=made))
        port = held_port()
        front = objects.gateway("front", {"name": "http", "port": port, "protocol": "HTTP"})
        route = objects.route(
            "r",
            {"backendRefs": [{**POOL, "name": "big"}], **(rule or {})},
            annotations={f"headgate.dev/{name}": value for name, value in annotations.items()},
        )
        translation = gateway_api.Translator().translate(objects.world(front, route), made)
        ports = Ports(gateway.shell.gateways, "127.0.0.1")
        ports.use(translation.entry_points)
        await ports.apply()
        opened.append(ports)
        gateway.port = port
        return gateway, translation

    yield start
    for ports in opened:
        ports.close()


@pytest.fixture
async def cloud(outside):
    return await outside.provider(answers)


async def test_a_provider(serve, cloud):
    gateway, _ = await serve(cloud, {"big": []}, {"fallback": "provider=cloud"})
    response = await gateway.ask(CHAT)
    assert (response.status, response.header("x-headgate-model")) == (200, "cloud/mini")
    assert response.header("x-of-server") is None


async def test_another_pool(serve, cloud, start_endpoint):
    """Of the kind and the namespace of the rule's pool."""
    spare = await start_endpoint(behave=answers)
    gateway, _ = await serve(cloud, {"big": [], "spare": [spare]}, {"fallback": "pool=spare"})
    response = await gateway.ask(CHAT)
    assert (response.status, response.header("x-headgate-fallback")) == (200, "big;no-endpoint")
    assert response.header("x-of-server") == "theirs"
    assert len(spare.calls) == 1


@pytest.mark.parametrize("has_model", [True, False])
async def test_they_precede_those_of_the_pool(serve, cloud, start_endpoint, has_model):
    """Also if an InferenceModel leads to the pool."""
    spare = await start_endpoint(behave=answers)
    of_pool = routing.Fallback(next=(routing.Next("", _ref("spare")),), reasons=USUAL)
    model = routing.Route(
        key=api.ObjectRef("InferenceModel", "shop", "big"),
        name="InferenceModel/shop/big",
        model="big",
        adapters=(),
        rules=(routing.Rule("models", None, (routing.Target(_ref("big"), 1),)),),
    )
    gateway, _ = await serve(
        cloud,
        {"big": [], "spare": [spare]},
        {"fallback": "provider=cloud", "fallback-on": "no-endpoint"},
        pool_fallback=of_pool,
        models={"big": (model,)} if has_model else None,
    )
    assert (await gateway.ask(CHAT)).header("x-headgate-model") == "cloud/mini"
    assert not spare.calls


async def test_changes_of_the_route_stay(serve, cloud):
    """A rule may add headers to responses of providers, too."""
    add, filters = {"add": [{"name": "x-a", "value": "b"}]}, []
    for of in ("Response", "Request"):
        filters.append({"type": f"{of}HeaderModifier", f"{of.lower()}HeaderModifier": add})
    gateway, _ = await serve(cloud, {"big": []}, {"fallback": "provider=cloud"}, rule={"filters": filters})
    assert (await gateway.ask(CHAT)).header("x-a") == "b"
    assert cloud.calls[0].header("x-a") is None


async def test_what_is_no_inference_is_refused(serve, cloud):
    """A provider gets chats and the like only."""
    gateway, _ = await serve(cloud, {"big": []}, {"fallback": "provider=cloud"})
    for body, path in ((CHAT, "/other"), (b"no JSON", "/v1/chat/completions")):
        assert (await gateway.ask(body, path)).status == 503
    assert not cloud.calls


async def test_providers_are_asked_by_post_only(serve, cloud, request_bytes):
    """A rule of the Gateway API takes any method, of which a provider would get another."""
    gateway, _ = await serve(cloud, {"big": []}, {"fallback": "provider=cloud"})
    client = await gateway.connect()
    for method, status in ((b"PUT", 503), (b"POST", 200)):
        client.send(request_bytes(CHAT).replace(b"POST", method, 1))
        assert (await client.response()).status == status
    client.close()
    assert len(cloud.calls) == 1


async def test_an_invalid_annotation(serve, cloud):
    """It has no effect, and the explanation of the route says so."""
    gateway, translation = await serve(cloud, {"big": []}, {"fallback": "provider=Cloud"})
    assert (await gateway.ask(CHAT)).status == 503
    head = types.SimpleNamespace(method=b"POST", path="/", values=dict, parameters=dict)
    (absence,) = gateway_api.explain(translation, "shop.example", head).absent
    assert absence.route == "HTTPRoute shop/r"
    assert "metadata.annotations[headgate.dev/fallback]" in absence.why
