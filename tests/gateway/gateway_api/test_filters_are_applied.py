"""Filters of rules and backends change requests and responses on their way."""

from __future__ import annotations

import pytest


def modifier(kind: str, **change: object) -> dict[str, object]:
    field = "urlRewrite" if kind == "URLRewrite" else kind[0].lower() + kind[1:]
    return {"type": kind, field: change}


@pytest.fixture
async def endpoint(start_endpoint):
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: call.answer(b"ok", **{"x-old": "1", "x-gone": "1"})
    return endpoint


async def test_headers_of_requests_change(front, endpoint, service, to):
    rule = modifier(
        "RequestHeaderModifier",
        set=[{"name": "X-Set", "value": "new"}],
        add=[{"name": "X-Add", "value": "two"}],
        remove=["x-gone"],
    )
    backend = modifier("RequestHeaderModifier", set=[{"name": "x-backend", "value": "b"}])
    await front.route(
        {"filters": [rule], "backendRefs": [to("web", filters=[backend])]}, objects_=service("web", endpoint)
    )
    await front.ask(x_set="old", x_add="one", x_gone="1", x_kept="1")
    headers = endpoint.calls[0].headers
    names = ("x-set", "x-add", "x-gone", "x-kept", "x-backend")
    assert [header for header in headers if header[0] in names] == [
        *(("x-add", "one"), ("x-kept", "1"), ("x-set", "new"), ("x-add", "two")),
        ("x-backend", "b"),
    ]


async def test_headers_of_responses_change(front, endpoint, service, to):
    change = modifier(
        "ResponseHeaderModifier",
        set=[{"name": "x-old", "value": "2"}],
        add=[{"name": "x-new", "value": "3"}],
        remove=["x-gone"],
    )
    await front.route({"filters": [change], "backendRefs": [to("web")]}, objects_=service("web", endpoint))
    response = await front.ask()
    assert [response.header(name) for name in ("x-old", "x-new", "x-gone")] == ["2", "3", None]


@pytest.mark.parametrize(
    ("path", "sent"),
    [("/one/two?x=1", "/new/two?x=1"), ("/one", "/new"), ("/one/", "/new/")],
)
async def test_prefixes_are_rewritten(path, sent, front, endpoint, service, to):
    rewrite = modifier(
        "URLRewrite",
        hostname="inside.example",
        path={"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"},
    )
    matches = [{"path": {"value": "/one"}}]
    rule = {"matches": matches, "filters": [rewrite], "backendRefs": [to("web")]}
    await front.route(rule, objects_=service("web", endpoint))
    await front.ask(path)
    [call] = endpoint.calls
    assert (call.target, call.header("host")) == (sent, "inside.example")
    assert call.header("x-forwarded-host") == "shop.example"


@pytest.mark.parametrize(
    ("redirect", "status", "location"),
    [
        ({"hostname": "new.example"}, 302, "http://new.example:{port}/a/b?c=d"),
        ({"scheme": "https"}, 302, "https://shop.example/a/b?c=d"),
        ({"scheme": "https", "port": 8443, "statusCode": 301}, 301, "https://shop.example:8443/a/b?c=d"),
        ({"port": 80}, 302, "http://shop.example/a/b?c=d"),
        (
            {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x"}, "port": 80},
            302,
            "http://shop.example/x/b?c=d",
        ),
        (
            {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/x"}, "port": 80, "statusCode": 308},
            308,
            "http://shop.example/x?c=d",
        ),
    ],
)
async def test_redirects_are_answered(redirect, status, location, front):
    rule = {"matches": [{"path": {"value": "/a"}}], "filters": [modifier("RequestRedirect", **redirect)]}
    await front.route(rule)
    response = await front.ask("/a/b?c=d")
    assert (response.status, response.header("location")) == (status, location.format(port=front.port))
    assert response.body == b""


async def test_requests_are_mirrored(front, endpoint, start_endpoint, service, to, eventually):
    """The client gets the response of the backend, whatever becomes of the copies."""
    shadow, silent = await start_endpoint(b"ignored"), await start_endpoint()
    await silent.stop()
    mirrors = [
        modifier("RequestMirror", backendRef={"name": name, "port": 80}) for name in ("shadow", "silent")
    ]
    never = modifier("RequestMirror", backendRef={"name": "shadow", "port": 80}, percent=0)
    objects = [*service("web", endpoint), *service("shadow", shadow), *service("silent", silent)]
    await front.route({"filters": [*mirrors, never], "backendRefs": [to("web")]}, objects_=objects)
    response = await front.ask("/a?b", "POST", b"body", x_own="1")
    assert response.body == b"ok"
    await eventually(lambda: shadow.calls)
    [copy] = shadow.calls
    assert (copy.method, copy.target, copy.body, copy.header("x-own")) == ("POST", "/a?b", b"body", "1")
    name = "headgate_gateway_mirrored_requests_total"
    await eventually(lambda: front.gateway.metric(name, outcome="sent") == 1)
    await eventually(lambda: front.gateway.metric(name, outcome="unreachable") == 1)


async def test_copies_count_in_the_memory_of_bodies(front, endpoint, start_endpoint, service, to, eventually):
    """While they are under way; without memory for it, none is sent, and the request is served."""
    shadow = await start_endpoint()
    shadow.behave = lambda call: None  # it does not respond
    mirror = modifier("RequestMirror", backendRef={"name": "shadow", "port": 80})
    objects = [*service("web", endpoint), *service("shadow", shadow)]
    await front.route({"filters": [mirror], "backendRefs": [to("web")]}, objects_=objects)
    bodies, name = front.gateway.shell.services.bodies, "headgate_gateway_mirrored_requests_total"
    assert (await front.ask("/", "POST", b"x" * 5000)).body == b"ok"
    await eventually(lambda: shadow.calls)
    assert 5000 <= bodies.held < 6000
    bodies.change(9000, 1000)
    assert (await front.ask("/", "POST", b"x" * 5000)).body == b"ok"
    await eventually(lambda: front.gateway.metric(name, outcome="no_memory") == 1)
    await shadow.stop()
    await eventually(lambda: bodies.held == 0)


async def test_a_filter_that_is_not_supported_serves_nobody(front, endpoint, service, to):
    extension = {"type": "ExtensionRef", "extensionRef": {"group": "x.y", "kind": "Z", "name": "z"}}
    await front.route({"filters": [extension], "backendRefs": [to("web")]}, objects_=service("web", endpoint))
    assert (await front.ask()).status == 404
    assert not endpoint.calls
