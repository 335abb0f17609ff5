"""The head of a request to a node's API: what is read from it, and what is refused."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.node.kubelet import callers, requests


def test_what_api_servers_send_is_read():
    head = (
        b"POST /exec/ns/web/engine?command=echo&command=a+b%26&output=1 HTTP/1.1\r\nHost: node\r\n"
        b"Content-Length: 0\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\n"
        b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )
    request = requests.parse(head)
    assert (request.method, request.path) == ("POST", ["exec", "ns", "web", "engine"])
    assert request.query == [("command", "echo"), ("command", "a b&"), ("output", "1")]
    assert request.upgrade == "spdy/3.1"
    assert request.headers["x-stream-protocol-version"] == "v5.channel.k8s.io, v4.channel.k8s.io"


@settings(deadline=None)
@given(st.binary(max_size=300))
@example(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
@example(b"GET http://[x/ HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET * HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
def test_any_bytes_are_a_request_or_refused(data):
    with contextlib.suppress(requests.RefusedError):
        request = requests.parse(data + b"\r\n\r\n")
        assert isinstance(request.token, str)
        callers.needed(request.method, request.path)


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Content-Length: 3", 400),
        (b"Transfer-Encoding: chunked", 400),
        (b"\r\n".join(b"a%d: b" % number for number in range(101)), 431),
        (b"a: " + b"b" * 20_000, 431),
    ],
    ids=["body", "chunks", "many", "long"],
)
def test_what_a_node_does_not_serve_is_refused(lines, status):
    with pytest.raises(requests.RefusedError) as refused:
        requests.parse(b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n\r\n")
    assert refused.value.status == status


def test_a_query_has_a_bounded_number_of_parameters():
    query = b"&".join([b"a="] * 2000)
    with pytest.raises(requests.RefusedError):
        requests.parse(b"GET /?" + query + b" HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("GET", "healthz", callers.Right("get", ("healthz", "proxy"))),
        ("GET", "pods", callers.Right("get", ("pods", "proxy"))),
        ("GET", "containerLogs/ns/pod/c", callers.Right("get", ("proxy",))),
        ("POST", "exec/ns/pod/c", callers.Right("create", ("proxy",))),
        ("GET", "exec/ns/pod/c", callers.Right("create", ("proxy",))),
        ("GET", "portForward/ns/pod", callers.Right("create", ("proxy",))),
        ("GET", "EXEC/ns/pod/c", callers.Right("create", ("proxy",))),
        ("GET", "", callers.Right("get", ("proxy",))),
        ("BREW", "coffee", callers.Right("brew", ("proxy",))),
    ],
)
def test_each_path_needs_a_right(method, path, right):
    assert callers.needed(method, path.split("/")) == right


def test_a_certificate_names_a_user_and_groups():
    subject = ((("organizationName", "one"),), (("organizationName", "two"),), (("commonName", "me"),))
    caller = callers.Caller.from_certificate({"subject": subject})
    assert caller == callers.Caller("me", ("one", "two", "system:authenticated"))
    for none in (None, {}, {"subject": ((("commonName", ""),),)}):
        assert callers.Caller.from_certificate(none) is None
