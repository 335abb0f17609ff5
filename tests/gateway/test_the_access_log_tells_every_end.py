"""One line per request, in either form, with its outcome and who caused it."""

import json
import re

import pytest

from headgate.dataplane.records.access_fields import FIELDS

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def logging(start_gateway):
    """Starts a gateway that logs in JSON."""

    async def start(*endpoints, settings=None, **pool):
        return await start_gateway(
            *endpoints, settings={"logging_access_log": "json", **(settings or {})}, **pool
        )

    return start


def entry(gateway):
    """The one line, with every member in its place."""
    (line,) = gateway.log_lines()
    members = json.loads(line)
    assert list(members) == [field.name for field in FIELDS]
    return members


async def test_request_that_is_served(logging, endpoint):
    """Who asked, what was decided, where it went, what it took."""
    gateway = await logging(endpoint, model="served-name")
    endpoint.behave = lambda call: call.answer(b'{"usage":{"prompt_tokens":7,"completion_tokens":5}}')
    body = {"model": "m", "prompt": "hello"}
    response = await gateway.ask(body, "/v1/completions?key=secret", X_Request_Id="mine", traceparent=PARENT)
    assert response.status == 200
    found = entry(gateway)
    durations = {name: found.pop(name) for name in list(found) if name.startswith("duration_")}
    (attempt,) = found.pop("attempts")
    assert found.pop("prefill") is None
    assert attempt == {"endpoint": "default/pod-0", "outcome": "served", "ms": attempt["ms"]}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("timestamp"))
    assert found == {
        "client_address": "127.0.0.1",
        "method": "POST",
        "path": "/v1/completions",
        "protocol": "HTTP/1.1",
        "status_code": 200,
        "outcome": "served",
        "error": None,
        "error_origin": None,
        "model_name": "m",
        "model_route": "default/route",
        "route_rule": "rule",
        "model_server": "default/pool",
        "backend_type": "model_server",
        "backend_name": "default/pool",
        "upstream_model": "served-name",
        "stream": False,
        "selected_pod": "default/pod-0",
        "upstream_status_code": 200,
        "upstream_attempts": 1,
        "fallbacks": [],
        "expected_prompt_tokens": 1,
        "expected_cached_tokens": 0,
        "expected_time_to_first_token": 20,
        "input_tokens": 7,
        "output_tokens": 5,
        "limit_input_tokens": None,
        "limit_output_tokens": None,
        "request_bytes": len(json.dumps(body)),
        "response_bytes": 51,
        "flow": None,
        "priority": 0,
        "dropped_reason": None,
        "tenant": None,
        "request_id": "mine",
        "trace_id": TRACE,
    }
    assert durations.pop("duration_time_to_first_token") is None
    total = durations.pop("duration_total")
    assert sum(durations.values()) == total


async def test_times_of_a_stream(logging, endpoint):
    """The total is the time until it was sent, until the answer began, and until its end."""
    gateway = await logging(endpoint)
    at = [100.0]
    gateway.shell.services.now = lambda: at[0]
    client = await gateway.connect()
    client.post({"model": "m", "stream": True})
    call = await endpoint.call()
    at[0] += 0.2
    call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    call.write(b"a\r\ndata: {}\n\n\r\n")
    await client.head()
    assert await client.reader.readexactly(15) == b"a\r\ndata: {}\n\n\r\n"
    at[0] += 3
    call.write(b"0\r\n\r\n")
    assert await client.reader.readexactly(5) == b"0\r\n\r\n"
    found = entry(gateway)
    assert found["duration_total"] == 3200
    assert found["duration_time_to_first_token"] == 200
    parts = ("request_processing", "upstream_processing", "response_processing")
    assert [found[f"duration_{part}"] for part in parts] == [0, 200, 3000]
    assert found["attempts"][0]["ms"] == 3200


async def test_attempts_on_several_endpoints(logging, start_endpoint):
    """Each attempt has a line's share: the endpoint, what happened there, how long it took."""
    busy = await start_endpoint(behave=lambda call: call.answer(b"", "503 Busy"))
    dead = await start_endpoint()
    await dead.stop()
    gateway = await logging(dead, busy, await start_endpoint(b"alive"))
    assert (await gateway.ask()).body == b"alive"
    found = entry(gateway)
    assert (found["upstream_attempts"], found["selected_pod"]) == (3, "default/pod-2")
    attempts = [(attempt["endpoint"], attempt["outcome"]) for attempt in found["attempts"]]
    assert attempts == [
        ("default/pod-0", "connect"),
        ("default/pod-1", "status_503"),
        ("default/pod-2", "served"),
    ]
    assert all(attempt["ms"] >= 0 for attempt in found["attempts"])
    assert gateway.metric("headgate_gateway_retries_total", pool="default/pool", granted="yes") == 2


async def test_text_form_of_a_request_that_failed(start_gateway, start_endpoint):
    """What went wrong stands at the end of the line, in quotes where it is a sentence."""
    dead = await start_endpoint()
    await dead.stop()
    gateway = await start_gateway(dead)
    answer = await gateway.ask()
    assert answer.status == 503
    (line,) = gateway.log_lines()
    wanted = (
        r'\S+Z 127\.0\.0\.1 "POST /v1/chat/completions HTTP/1\.1" 503 outcome=endpoint_unreachable model=m '
        r"route=default/route rule=rule pool=default/pool endpoint=- attempts=1 "
        r"prompt=\d+ cached=0 expected=\d+ms tokens=-/- "
        rf"request_bytes=33 response_bytes={len(answer.body)} "
        r"total=\d+ms\(\d+\+0\+0\) id=\S+ origin=upstream tried=default/pod-0:connect:\d+ms "
        r'error="127\.0\.0\.1:\d+ cannot be connected to"'
    )
    assert re.fullmatch(wanted, line)


async def test_reason_of_a_failure(logging, endpoint):
    """The client, the gateway, or the endpoint: who is to be asked about it."""
    endpoint.behave = lambda call: call.answer(b"x", call.json["do"])
    gateway = await logging(endpoint)
    cases = [
        ({"model": "nobody"}, 404, "model_not_found", "client"),
        (b"{", 400, "invalid_json", "client"),
        ({"model": "m", "do": "500 Broken"}, 500, "served", "upstream"),
        ({"model": "m", "do": "429 Slow down"}, 429, "served", "upstream"),
        ({"model": "m", "do": "200 OK"}, 200, "served", None),
    ]
    for body, status, _, _ in cases:
        assert (await gateway.ask(body)).status == status
    found = [json.loads(line) for line in gateway.log_lines()]
    seen = [(line["status_code"], line["outcome"], line["error_origin"]) for line in found]
    assert seen == [case[1:] for case in cases]
    assert (found[0]["model_name"], found[0]["model_route"]) == ("nobody", None)
    assert found[0]["error"]["type"] == "model_not_found"
    assert "nobody" in found[0]["error"]["message"]


async def test_pool_without_endpoints(logging):
    """The decision is told as far as it came, and the gateway is the reason."""
    gateway = await logging()
    gateway.serve([])
    assert (await gateway.ask()).status == 503
    found = entry(gateway)
    assert (found["outcome"], found["error_origin"]) == ("no_ready_endpoint", "gateway")
    assert (found["model_server"], found["selected_pod"], found["attempts"]) == ("default/pool", None, [])
    assert found["upstream_status_code"] is None


async def test_client_that_leaves(logging, endpoint, eventually):
    """499, with the endpoint that was at work."""
    gateway = await logging(endpoint)
    client = await gateway.connect()
    client.post()
    await endpoint.call()
    client.close()
    await eventually(lambda: gateway.settled)
    found = entry(gateway)
    assert (found["status_code"], found["outcome"], found["error_origin"]) == (499, "client_gone", "client")
    assert (found["selected_pod"], found["client_address"]) == ("default/pod-0", "127.0.0.1")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_bytes_that_are_no_request(start_gateway, endpoint, form):
    """They have a line as well, with the client's address."""
    gateway = await start_gateway(endpoint, settings={"logging_access_log": form})
    client = await gateway.connect()
    client.send(b"POST /p\xff HTTP/1.1\r\ncontent-length: x\r\n\r\n")
    answer = await client.rest()
    assert b" 400 Bad Request" in answer
    if form == "json":
        found = entry(gateway)
        assert (found["client_address"], found["status_code"]) == ("127.0.0.1", 400)
        assert (found["method"], found["outcome"]) == (None, "invalid_http")
        assert found["response_bytes"] == len(answer.partition(b"\r\n\r\n")[2]) > 0
    else:
        (line,) = gateway.log_lines()
        assert ' 127.0.0.1 "- ' in line
        assert " 400 outcome=invalid_http origin=client " in line
        assert line.isascii()
        assert line.isprintable()


HOSTILE = [
    '"quotes"',
    "back\\slash",
    "line\nline",
    "\x1b[31mred",
    "\x00",
    "\x7f",
    "\u202e",
    "é \u2028",
    "a=b c=d",
    "x" * 5000,
]


@pytest.mark.parametrize("form", ["text", "json"])
async def test_hostile_names(start_gateway, endpoint, form):
    """Whatever a client calls its model, path and request: one line of bounded, printable ASCII."""
    gateway = await start_gateway(endpoint, settings={"logging_access_log": form})
    for text in HOSTILE:
        path = "".join(each if each.isprintable() and each != " " else "%" for each in text)
        body = json.dumps({"model": text}).encode()
        for target in (f"/{path}", "/v1/completions"):
            client = await gateway.connect()
            client.send(f'POST {target} HTTP/1.1\r\nhost: g\r\nx-request-id: a"b\\c\r\n'.encode())
            client.send(b"content-length: %d\r\n\r\n" % len(body) + body)
            assert (await client.response()).status in (400, 404)
            client.close()
    lines = gateway.log_lines()
    assert len(lines) == 2 * len(HOSTILE)
    for line, text in zip(lines, [text for text in HOSTILE for _ in range(2)], strict=True):
        assert line.isascii()
        assert line.isprintable()
        assert len(line) < 8000
        if form == "json":
            members = json.loads(line)
            is_of_path = members["status_code"] == 400 or members["outcome"] == "path_not_forwarded"
            assert is_of_path or members["model_name"] == text[:1024]
            assert members["request_id"] in (None, 'a"b\\c')


async def test_traces_are_begun_where_told(logging, endpoint):
    """A request without a trace, or with an invalid one, gets a new one; others keep theirs."""
    gateway = await logging(endpoint, settings={"tracing_sample_ratio": 1.0})
    endpoint.behave = lambda call: call.answer()
    await gateway.ask()
    await gateway.ask(traceparent="00-nonsense", tracestate="vendor=1", baggage="user=2")
    await gateway.ask(traceparent=PARENT, tracestate="vendor=1")
    begun = []
    for call in endpoint.calls[:2]:
        assert [name for name, _ in call.headers].count("traceparent") == 1
        begun.append(re.fullmatch(r"00-([0-9a-f]{32})-[0-9a-f]{16}-01", call.header("traceparent"))[1])
        assert call.header("tracestate") is None
    assert endpoint.calls[1].header("baggage") == "user=2"
    kept = endpoint.calls[2]
    assert (kept.header("traceparent"), kept.header("tracestate")) == (PARENT, "vendor=1")
    lines = [json.loads(line)["trace_id"] for line in gateway.log_lines()]
    assert lines == [*begun, TRACE]
    assert begun[0] != begun[1]


async def test_trace_of_a_request(logging, endpoint):
    """The trace is in the line if its header is valid; the headers pass as they came either way."""
    cases = [
        (PARENT, TRACE),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-more", TRACE),
        (f"00-{TRACE}-00f067aa0ba902b7-01-more", None),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (PARENT.upper(), None),
        ('","x":"', None),
    ]
    gateway = await logging(endpoint)
    endpoint.behave = lambda call: call.answer()
    for parent, _ in cases:
        given = {"traceparent": parent, "tracestate": "vendor=1", "baggage": "user=2"}
        assert (await gateway.ask(**given)).status == 200
        assert given.items() <= dict(endpoint.calls[-1].headers).items()
    assert [json.loads(line)["trace_id"] for line in gateway.log_lines()] == [case[1] for case in cases]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("form", ["text", "json"])
async def test_errors_of_the_gateway_have_their_length(start_gateway, endpoint, form, path):
    """A response that no endpoint sent has a body as well."""
    gateway = await start_gateway(endpoint, settings={"logging_access_log": form})
    answer = await gateway.ask({"model": "nobody", "messages": []}, path)
    assert answer.status == 404
    (line,) = gateway.log_lines()
    size = len(answer.body)
    assert size > 0
    assert (f" response_bytes={size} " if form == "text" else f'"response_bytes":{size},') in line
