"""Logs, headers, debug pages and token counts show where a prompt was prefilled, and why there."""

import json

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.explaining.explanation import Explanation
from headgate.gateway import pages
from headgate.gateway.explaining import View, explain, view_of_objects
from headgate.requests.usage import with_cached

LONG = [{"role": "user", "content": "x" * 4000}]


async def serve_one(some, client, chat, handed_over, answer=b"{}", **headers):
    """One request through both phases."""
    client.post(chat(messages=LONG), **headers)
    handed_over(await some.prefill[0].call(), cached=96)
    (await some.decode[0].call()).answer(answer)
    return await client.response()


async def test_the_access_log_tells_both_endpoints(split, chat, handed_over):
    """Decision, endpoint, time and cached tokens of the prefill."""
    some = await split("nixl", settings={"logging_access_log": "json"})
    await serve_one(some, await some.gateway.connect(), chat, handed_over)
    line = json.loads(some.gateway.log_lines()[0])
    assert line["selected_pod"] == "default/pod-1"
    assert line["prefill"].pop("ms") >= 0
    assert line["prefill"] == {"decision": "remote", "endpoint": "default/pod-0", "cached_tokens": 96}
    assert line["upstream_attempts"] == 1


async def test_the_text_log_tells_it_in_a_word(split, chat, handed_over):
    """And why another endpoint did not prefill."""
    some = await split("nixl", remote_tokens=512)
    client = await some.gateway.connect()
    await serve_one(some, client, chat, handed_over)
    client.post(chat())
    (await some.decode[0].call()).answer(b"{}")
    await client.response()
    apart, whole = some.gateway.log_lines()
    assert " prefill=remote:default/pod-0:" in apart
    assert " prefill=short" in whole


async def test_failed_prefills_are_in_the_log(split, chat, handed_over):
    """Among the attempts, as those of the other phase."""
    some = await split("nixl", prefill=2, settings={"logging_access_log": "json"})
    client = await some.gateway.connect()
    client.post(chat())
    (await some.prefill[0].call()).reset()
    handed_over(await some.prefill[1].call())
    (await some.decode[0].call()).answer(b"{}")
    await client.response()
    line = json.loads(some.gateway.log_lines()[0])
    tried = [(each["endpoint"], each["outcome"]) for each in line["attempts"]]
    assert tried == [("default/pod-0", "prefill_reset"), ("default/pod-2", "served")]
    assert line["upstream_attempts"] == 2


async def test_trusted_clients_see_the_pair(split, chat, handed_over):
    """In the decision header."""
    some = await split("nixl", settings={"clients_trusted_networks": ("127.0.0.1",)})
    client = await some.gateway.connect()
    response = await serve_one(some, client, chat, handed_over, x_headgate_explain="1")
    decision = response.header("x-headgate-decision")
    assert "prefill-decision=remote; prefill-endpoint=default/pod-0" in decision
    assert "; endpoint=default/pod-1;" in decision


async def test_the_phase_of_a_request_is_shown(split, chat, handed_over):
    """While it is prefilled, and afterwards."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    (shown,) = (await debug(some, "/debug/requests"))["requests"]
    assert (shown["phase"], shown["prefill"]["endpoint"]) == ("prefilling", "default/pod-0")
    handed_over(prefill)
    decode = await some.decode[0].call()
    (shown,) = (await debug(some, "/debug/requests"))["requests"]
    assert (shown["phase"], shown["endpoint"]) == ("sent", "default/pod-1")
    decode.answer(b"{}")
    await client.response()


async def debug(some, path, body=None):
    transport = httpx2.ASGITransport(app=pages.admin_page(some.gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        if body is None:
            return (await client.get(path)).json()
        return msgspec.json.decode((await client.post(path, json=body)).content, type=Explanation)


async def test_explanations_tell_the_pair(split, chat):
    """Who would prefill, who would answer, and nothing is sent."""
    some = await split("nixl", prefill=2, remote_tokens=512)
    found = await debug(some, "/debug/explain/v1/chat/completions", chat(messages=LONG))
    target = found.decided
    assert target.endpoint.name == "default/pod-2"
    (told,) = [change for change in target.changes if "prefilled by" in change]
    assert told.startswith("the prompt is prefilled by default/pod-")
    assert told.endswith("its cache handed over by nixl")
    whys = {each.name: each.why for each in target.endpoints}
    assert sorted(why.split(":")[0] for name, why in whys.items() if name != "default/pod-2") == [
        "only prefills for others",
        "prefills",
    ]
    found = await debug(some, "/debug/explain/v1/chat/completions", chat())
    assert (
        "the prompt is prefilled where it is decoded (short): the prompt is shorter than 512 tokens"
        in found.decided.changes
    )
    assert all(not endpoint.calls for endpoint in (*some.prefill, *some.decode))


async def test_explanations_refuse_what_would_be_refused(split, chat):
    """A pool without endpoints that decode."""
    some = await split("nixl", decode=0)
    found = await debug(some, "/debug/explain/v1/chat/completions", chat())
    assert found.decided.answer.status == 503
    assert "none of its decoding Pods is ready" in found.decided.answer.body


USAGE = b'{"usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":%b},"completion_tokens":5}}'


async def test_clients_are_told_of_the_prefills_cache(split, chat, handed_over):
    """To the endpoint that decodes, all of the prompt is cached, as it was handed over."""
    some = await split("nixl")
    client = await some.gateway.connect()
    response = await serve_one(some, client, chat, handed_over, USAGE % b"1000")
    assert response.json["usage"]["prompt_tokens_details"] == {"cached_tokens": 96}
    assert len(response.body) == len(USAGE % b"1000")


async def test_streams_tell_it_as_well(split, chat, handed_over, events):
    """In their last event, whose framing does not change."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat(messages=LONG, stream=True, stream_options={"include_usage": True}))
    handed_over(await some.prefill[0].call(), cached=96)
    call = await some.decode[0].call()
    call.write(events.head + events.text(b"a"))
    await client.head()
    await client.reader.readuntil(b"\n\n\r\n")
    last = b"data: " + USAGE % b"1000" + b"\n\n"
    call.write(b"%x\r\n%b\r\n" % (len(last), last) + events.end)
    assert b'"cached_tokens":96  }' in await client.reader.readuntil(b"0\r\n\r\n")


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.binary(max_size=40), st.binary(max_size=40))
def test_only_higher_counts_are_lowered(told, known, before, after):
    """The length stays whatever stands around them, and what is read is the lower of both."""
    text = b'{"cached_tokens": %d}' % told
    changed = with_cached(text, known)
    assert len(changed) == len(text)
    assert json.loads(changed)["cached_tokens"] == min(told, known)
    assert len(with_cached(before + text + after, known)) == len(before + text + after)


@pytest.mark.parametrize("text", [b'\\"cached_tokens\\":99', b'"cached_tokens":99', b'"cached_tokens":null,'])
def test_what_is_no_count_stays(text):
    """Text of a model that looks like one, a count that may go on, and null."""
    assert with_cached(text, 5) == text


async def test_a_prefill_that_answers_late_ends_by_itself(split, chat, eventually):
    """Its server is about to be done when the answer is complete: the connection is kept for the next."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    (await some.decode[0].call()).answer(b"{}")
    assert (await client.response()).status == 200
    assert some.load(some.prefill[0]).requests == 1
    prefill.answer(b"{}")
    await eventually(lambda: some.load(some.prefill[0]).requests == 0)
    assert some.load(some.prefill[0]).failures == 0
    client.post(chat())
    (await some.prefill[0].call()).answer(b"{}")
    (await some.decode[0].call()).answer(b"{}")
    await client.response()
    assert len(some.prefill[0].connections) == 1


async def test_a_late_prefill_is_dropped_with_the_gateway(split, chat):
    """Nothing outlives it."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat())
    await some.prefill[0].call()
    (await some.decode[0].call()).answer(b"{}")
    await client.response()
    assert len(some.gateway.shell.services.background.left_behind) == 1
    await some.gateway.shell.close()
    assert not some.gateway.shell.services.background.left_behind
    assert some.load(some.prefill[0]).requests == 0


async def test_objects_alone_are_explained_as_a_gateway_would(split, chat):
    """Without a gateway, who decodes is picked by the same policy as in one that has just started."""
    some = await split("nixl", decode=2)
    asked = "/v1/chat/completions", [], json.dumps(chat(messages=LONG)).encode()
    shell = some.gateway.shell
    views = (
        View.of_plane(shell.plane, shell.now()),
        view_of_objects(shell.plane.snapshot, knows_endpoints=True),
    )
    live, alone = (explain(view, *asked).targets[0].endpoints for view in views)
    assert [each.why for each in alone] == [each.why for each in live]
    assert any("decodes: first token" in each.why for each in alone)
