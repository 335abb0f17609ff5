"""Requests of a session go to one endpoint, by the gateway's token or the client's id (B45, B46)."""

import base64
import json
import random
import time

import pytest
import yaml

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def settings(plugins: str) -> dict[str, object]:
    return {
        "scheduling_content": yaml.safe_load(f"{HEAD}plugins: {plugins}\n"),
        "scheduling_allow_experimental_plugins": True,
    }


def by_token(kind: str) -> dict[str, object]:
    return settings(f"[{{type: {kind}}}, {{type: active-request-scorer}}]")


def by_id(**said: object) -> dict[str, object]:
    parameters = json.dumps({"strategy": "session_id", "sessionIdConfig": said})
    return settings(f"[{{type: session-affinity-filter, parameters: {parameters}}}, {{type: random-picker}}]")


@pytest.fixture
def start(start_gateway):
    """A gateway that breaks ties by chance, so that staying is no accident."""

    async def started(*args, **kwargs):
        gateway = await start_gateway(*args, **kwargs)
        gateway.shell.plane.rng = random.Random(7)
        return gateway

    return started


@pytest.fixture
async def endpoints(start_endpoint):
    return [await start_endpoint(name) for name in (b"a", b"b", b"c")]


@pytest.mark.parametrize("kind", ["session-affinity-filter", "session-affinity-scorer"])
async def test_the_token_of_an_answer_leads_to_its_endpoint(start, endpoints, kind):
    """B45: the first answer has a token, and the second request with it goes to the same endpoint."""
    gateway = await start(*endpoints, settings=by_token(kind))
    first = await gateway.ask()
    token = first.header("x-session-token")
    place = "abc".index(first.body.decode())
    assert base64.b64decode(token).decode() == f"default/pod-{place}"
    for _ in range(5):
        again = await gateway.ask(x_session_token=token)
        assert (again.body, again.header("x-session-token")) == (first.body, token)


async def test_where_the_pod_is_gone_another_gets_the_session(start, endpoints):
    """B46: a new endpoint, and with it a new token."""
    gateway = await start(*endpoints, settings=by_token("session-affinity-filter"))
    token = base64.b64encode(b"default/pod-2").decode()
    assert (await gateway.ask(x_session_token=token)).body == b"c"
    gateway.serve(endpoints[:2])
    moved = await gateway.ask(x_session_token=token)
    assert moved.body in (b"a", b"b")
    assert moved.header("x-session-token") not in (None, token)


@pytest.mark.parametrize("token", ["", "%%%", "bm9ib2R5", "A" * 4000, base64.b64encode(b"\xff").decode()])
async def test_a_token_that_means_nothing_is_none(start, endpoints, token):
    """Whatever a client sends, it is served, and gets a good token."""
    gateway = await start(*endpoints, settings=by_token("session-affinity-filter"))
    answer = await gateway.ask(x_session_token=token)
    assert answer.status == 200
    assert base64.b64decode(answer.header("x-session-token")).startswith(b"default/pod-")


async def test_an_endpoint_that_fails_loses_its_sessions(start, endpoints):
    """The retry is answered by another, whose token the answer has."""
    gateway = await start(*endpoints, settings=by_token("session-affinity-filter"))
    endpoints[0].behave = lambda call: call.reset()
    token = base64.b64encode(b"default/pod-0").decode()
    answer = await gateway.ask(x_session_token=token)
    assert len(endpoints[0].calls) == 1
    assert answer.body in (b"b", b"c")
    assert (
        answer.header("x-session-token")
        == base64.b64encode(f"default/pod-{'abc'.index(answer.body.decode())}".encode()).decode()
    )


async def test_sessions_with_ids_stay_until_they_were_unused_for_long(start, endpoints):
    """No token is sent; what is unused for longer than the TTL is forgotten, and its memory freed."""
    gateway = await start(*endpoints, settings=by_id(evictionTtlSeconds=300))
    start = gateway.shell.now()
    bound = {}
    for session in map(str, range(12)):
        answer = await gateway.ask(x_session_id=session)
        assert answer.header("x-session-token") is None
        bound[session] = answer.body
    assert len(set(bound.values())) > 1
    gateway.shell.services.now = lambda: start + 299
    for session, body in bound.items():
        assert (await gateway.ask(x_session_id=session)).body == body
    (plugin,) = gateway.shell.plane.pools.popitem()[1].policy.policy.profile.filters
    assert len(plugin.strategy) == 12
    gateway.serve(endpoints)
    gateway.shell.services.now = lambda: start + 700
    await gateway.ask(x_session_id="13")
    (plugin,) = gateway.shell.plane.pools.popitem()[1].policy.policy.profile.filters
    assert len(plugin.strategy) == 1
    gateway.serve(endpoints)


async def test_ids_come_from_headers_cookies_or_wherever_clients_put_them(start, endpoints):
    """The first source that has one counts."""
    sources = [{"header": "x-mine"}, {"cookie": "sid"}, {"attribute": "session-id"}]
    gateway = await start(*endpoints, settings=by_id(sources=sources))
    wanted = (await gateway.ask(x_mine="one")).body
    for _ in range(4):
        assert (await gateway.ask(cookie="a=b; sid=one")).body == wanted
        assert (await gateway.ask(x_claude_code_session_id="one")).body == wanted
        assert (await gateway.ask(x_mine="one", cookie="sid=two")).body == wanted


@pytest.mark.parametrize("text", ["\\", '\\"', "\\101", "=", ";", "sid="])
async def test_cookies_of_any_content_take_little_time(start, endpoints, text):
    """The whole of the data path waits for it."""
    gateway = await start(*endpoints, settings=by_id(sources=[{"cookie": "sid"}]))
    cookie = f'sid="{text * (8_000 // len(text))}"'
    began = time.process_time()
    assert (await gateway.ask(cookie=cookie)).status == 200
    assert time.process_time() - began < 0.2
    wanted = (await gateway.ask(cookie='a="b"; sid="one"')).body
    assert (await gateway.ask(cookie="sid=one")).body == wanted


async def test_a_label_of_the_endpoint_may_be_in_the_answer(start_gateway, start_endpoint):
    """header-label-affinity-scorer tells the client where it was, and takes its word the next time."""
    made = [await start_endpoint(b"a"), await start_endpoint(b"b")]
    scorer = "{type: header-label-affinity-scorer, parameters: {headerName: X-Slice, labelKey: slice}}"
    gateway = await start_gateway(settings=settings(f"[{scorer}]"))
    gateway.serve(made)
    loads = next(iter(gateway.shell.plane.pools.values())).loads
    for load, name in zip(loads, ("s0", "s1"), strict=True):
        load.labels = {"slice": name}
    for name, body in (("s0", b"a"), ("s1", b"b")):
        answer = await gateway.ask(x_slice=name)
        assert (answer.body, answer.header("x-slice")) == (body, name)
