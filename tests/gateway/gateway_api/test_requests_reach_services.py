"""Requests to a Gateway reach the Services that their route leads to, and responses come back unchanged."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headgate.gateway.gateway_api import ports


async def test_a_request_is_forwarded_as_it_came(front, start_endpoint, service, to):
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: call.answer(b"hello", "201 Created", **{"x-kind": "web"})
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    response = await front.ask("/a?b=%20c", "POST", b"\x00\xff", accept="x/y", x_own="1")
    assert (response.status, response.body) == (201, b"hello")
    assert response.header("x-kind") == "web"
    [call] = endpoint.calls
    assert (call.method, call.target, call.body) == ("POST", "/a?b=%20c", b"\x00\xff")
    assert call.header("host") == "shop.example"
    assert call.header("accept") == "x/y"
    assert call.header("x-own") == "1"
    assert call.header("x-forwarded-for") == "127.0.0.1"
    assert call.header("x-forwarded-proto") == "http"
    assert call.header("x-request-id")


@pytest.mark.parametrize("name", ["content_length", "transfer_encoding"])
async def test_framing_with_underscores_is_not_forwarded(name, front, start_endpoint, service, to, message):
    """Some servers treat underscores as hyphens, and would find a second request in the body."""
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(
        message(method="POST", body=b"abc").replace(b"\r\n\r\n", b"\r\n%s: 0\r\n\r\n" % name.encode(), 1)
    )
    assert (await client.response()).status == 200
    [call] = endpoint.calls
    assert call.body == b"abc"
    assert name not in {header.lower() for header, _ in call.headers}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_every_method_is_forwarded(method, front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    assert (await front.ask(method=method)).body == b"ok"
    assert endpoint.calls[0].method == method


async def test_a_response_to_head_has_no_body(front, start_endpoint, service, to, message):
    """Its connection stays open for the next request."""
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: (
        call.answer(b"ok")
        if call.method == "GET"
        else call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n")
    )
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(message(method="HEAD"))
    head = await client.response(has_body=False)
    assert (head.status, head.header("content-length")) == (200, "99")
    client.send(message())
    assert (await client.response()).body == b"ok"


async def test_requests_without_a_match_get_404(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    rule = {"matches": [{"path": {"value": "/in"}}], "backendRefs": [to("web")]}
    await front.route(rule, objects_=service("web", endpoint), hosts=["shop.example"])
    assert (await front.ask("/in/x")).status == 200
    assert (await front.ask("/out")).status == 404
    assert (await front.ask("/in", host="other.example")).status == 404
    assert (await front.ask("/in", host="SHOP.example:8080")).status == 200


async def test_trusted_clients_may_ask_for_the_decision(
    start_front, start_endpoint, service, to, unused_tcp_port
):
    """Of responses of Services, redirects and refusals; others get no names of objects."""
    front = await start_front(clients_trusted_networks=("127.0.0.0/8",))
    endpoint = await start_endpoint(b"ok")
    redirect = {"type": "RequestRedirect", "requestRedirect": {"hostname": "other.example"}}
    rules = [
        {"matches": [{"path": {"value": "/in"}}], "backendRefs": [to("web")]},
        {"matches": [{"path": {"value": "/away"}}], "filters": [redirect]},
        {"matches": [{"path": {"value": "/bad"}}], "backendRefs": [to("missing")]},
        {"matches": [{"path": {"value": "/gone"}}], "backendRefs": [to("gone")]},
    ]
    backends = service("web", endpoint) + service("gone", SimpleNamespace(port=unused_tcp_port))
    await front.route(*rules, objects_=backends, hosts=["shop.example"])
    told = {}
    for path in ("/in", "/away", "/bad", "/gone", "/out"):
        response = await front.ask(path, x_headgate_explain="1")
        told[path] = dict(response.headers)["x-headgate-decision"]
    route = "route=HTTPRoute/shop/r"
    address = f"127.0.0.1:{endpoint.port}"
    assert told == {
        "/in": f"{route}; rule=rules[0]; target=Service/shop/web:80; address={address}; attempts=1",
        "/away": f"{route}; rule=rules[1]; attempts=0",
        "/bad": f"{route}; rule=rules[2]; attempts=0; refused=backend_invalid",
        "/gone": f"{route}; rule=rules[3]; target=Service/shop/gone:80; "
        f"address=127.0.0.1:{unused_tcp_port}; attempts=1; refused=endpoint_unreachable",
        "/out": "attempts=0; refused=route_not_found",
    }
    assert "x-headgate-decision" not in dict((await front.ask("/bad")).headers)
    distrusting = await start_front(clients_trusted_networks=())
    await distrusting.route(*rules, objects_=backends, hosts=["shop.example"])
    assert "x-headgate-decision" not in dict((await distrusting.ask("/bad", x_headgate_explain="1")).headers)


async def test_a_backend_that_is_not_there_gets_500(front, start_endpoint, service, to):
    """C3: also a share of the requests, if others are there."""
    endpoint = await start_endpoint(b"ok")
    backends = [to("web"), to("missing")]
    await front.route({"backendRefs": backends}, objects_=service("web", endpoint))
    statuses = [(await front.ask()).status for _ in range(8)]
    assert statuses.count(200) == statuses.count(500) == 4
    await front.route({"backendRefs": [to("web", 0)]}, objects_=service("web", endpoint))
    assert (await front.ask()).status == 500
    await front.route({}, objects_=[])
    assert (await front.ask()).status == 500


async def test_a_service_without_endpoints_gets_503(front, service, to):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web"))
    assert (await front.ask()).status == 503


async def test_weights_share_requests_exactly(front, start_endpoint, service, to):
    one, two = await start_endpoint(b"1"), await start_endpoint(b"2")
    backends = [to("one", 70), to("two", 30), to("never", 0)]
    services = [*service("one", one), *service("two", two)]
    await front.route({"backendRefs": backends}, objects_=services)
    for _ in range(20):
        assert (await front.ask()).status == 200
    assert (len(one.calls), len(two.calls)) == (14, 6)


async def test_endpoints_of_a_service_take_turns(front, start_endpoint, service, to):
    endpoints = [await start_endpoint(b"ok") for _ in range(3)]
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", *endpoints))
    for _ in range(6):
        await front.ask()
    assert [len(each.calls) for each in endpoints] == [2, 2, 2]


async def test_an_endpoint_that_cannot_be_reached_is_passed_over(front, start_endpoint, service, to):
    dead, alive = await start_endpoint(b"no"), await start_endpoint(b"ok")
    await dead.stop()
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", dead, alive))
    for _ in range(4):
        assert (await front.ask("/", "POST", b"body")).status == 200
    await alive.stop()
    assert (await front.ask()).status == 503


async def test_endpoints_may_change_while_a_gateway_serves(front, start_endpoint, service, to):
    old, new = await start_endpoint(b"old"), await start_endpoint(b"new")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", old))
    client = await front.connect()
    for endpoint, wanted in ((old, b"old"), (new, b"new")):
        await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
        client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await client.response()).body == wanted


async def test_requests_are_logged_and_counted_once(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    await front.ask("/path?secret=1", "POST", b"four")
    labels = {"route": "HTTPRoute/shop/r", "service": "Service/shop/web:80", "code": "200"}
    name = "headgate_gateway_service_requests_total"
    assert front.gateway.metric(name, outcome="served", **labels) == 1
    [line] = front.gateway.log_lines()
    assert '"POST /path HTTP/1.1" 200 outcome=served route=HTTPRoute/shop/r' in line
    assert "request_bytes=4 response_bytes=2" in line
    assert "secret" not in line


async def test_headers_between_gateways_are_not_believed_of_clients(front, start_endpoint, service, to):
    """A filter may set one."""
    endpoint = await start_endpoint(b"ok")
    change = {"set": [{"name": "x-gateway-tier", "value": "1"}]}
    filters = [{"type": "RequestHeaderModifier", "requestHeaderModifier": change}]
    await front.route({"filters": filters, "backendRefs": [to("web")]}, objects_=service("web", endpoint))
    await front.ask(x_gateway_destination_endpoint="10.0.0.1:80", x_forwarded_for="1.2.3.4")
    [call] = endpoint.calls
    assert call.header("x-gateway-destination-endpoint") is None
    assert call.header("x-gateway-tier") == "1"
    assert call.header("x-forwarded-for") == "127.0.0.1"


async def test_ports_are_limited(front, monkeypatch, held_port):
    """Ports that are open stay open; the next one is opened when one of them goes."""
    monkeypatch.setattr(ports, "MAX_PORTS", 2)
    numbers = [held_port() for _ in range(3)]
    listeners = [{"name": f"l{number}", "port": number, "protocol": "HTTP"} for number in numbers]
    await front.serve(listeners=listeners)
    shown = front.gateway.shell.gateways.ports_shown()
    assert sorted(each == "open" for each in shown.values()) == [False, True, True]
    await front.serve(listeners=listeners[1:])
    assert set(front.gateway.shell.gateways.ports_shown().values()) == {"open"}
