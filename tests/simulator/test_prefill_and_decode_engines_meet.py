"""Pairs of live engines that hand a prompt over, in vLLM's form and SGLang's, and what may go wrong there."""

import asyncio

import httpx2
import pytest

from headgate.simulator.server import FailureSettings, ServerSettings, listen, running
from headgate.simulator.server.kv_transfer.forms import BlockStore

TEXT = "/v1/completions"
PREFILL = {"do_remote_decode": True, "do_remote_prefill": False}
BODY = {"model": "tiny", "prompt": "Once upon a time there was a canal", "max_tokens": 1}


async def protocol(server):
    return (await server.client.get("/admin/protocol")).json()


async def until_rooms(server, number):
    """Wait until so many bootstrap rooms are open."""
    async with asyncio.timeout(60):
        while (await protocol(server))["open_rooms"] != number:
            await asyncio.sleep(0.001)


@pytest.fixture
async def pair(serve):
    """A prefill and a decode engine of vLLM's form."""
    async with serve(role="prefill", check_protocol=True) as prefill, serve(role="decode") as decode:
        yield prefill, decode


async def prefilled(prefill, **body):
    asked = BODY | {"kv_transfer_params": PREFILL} | body
    answer = (await prefill.client.post(TEXT, json=asked)).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    return answer["kv_transfer_params"]


async def test_vllms_form_hands_the_prompt_over(pair):
    """The prefill's answer names its blocks; with them the decode engine gets the prompt, once."""
    prefill, decode = pair
    params = await prefilled(prefill)
    assert params["do_remote_prefill"]
    assert not params["do_remote_decode"]
    assert (params["remote_host"], params["remote_port"]) == ("127.0.0.1", prefill.client.base_url.port)
    assert len(params["remote_block_ids"]) == 1
    answer = await decode.client.post(TEXT, json=BODY | {"max_tokens": 5, "kv_transfer_params": params})
    assert answer.json()["usage"]["completion_tokens"] == 5
    assert (await protocol(decode))["seen"] == {"nixl decode": 1, "prompt received": 1}
    assert (await protocol(prefill))["seen"] == {"nixl prefill": 1, "prompt sent": 1}
    assert (await protocol(prefill))["held_prompts"] == 0


async def test_responses_are_handed_over_like_completions(pair):
    """By the same fields."""
    prefill, decode = pair
    body = {"model": "tiny", "input": "How deep is the canal?", "max_output_tokens": 1}
    answer = await prefill.client.post("/v1/responses", json=body | {"kv_transfer_params": PREFILL})
    params = answer.json()["kv_transfer_params"]
    answer = await decode.client.post("/v1/responses", json=body | {"kv_transfer_params": params})
    assert answer.json()["usage"]["input_tokens_details"]["cached_tokens"] == 5
    assert (await protocol(decode))["seen"] == {"nixl decode": 1, "prompt received": 1}


async def test_a_prompt_that_came_is_not_computed_again(serve, fast):
    """The decode engine prefills its last token alone, and the prefill engine has its blocks until then."""
    async with serve() as prefill, serve() as decode:
        params = await prefilled(prefill, prompt=list(range(160)))
        assert prefill.live.statistics().kv_blocks_used == 10
        body = BODY | {"prompt": list(range(160)), "kv_transfer_params": params}
        usage = (await decode.client.post(TEXT, json=body)).json()["usage"]
        assert usage["prompt_tokens_details"] == {"cached_tokens": 159}
        assert decode.live.statistics().prefill_tokens_total == 1
        page = (await decode.client.get("/metrics")).text
        assert 'vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 159.0' in page
        assert 'vllm:external_prefix_cache_queries_total{engine="0",model_name="tiny"} 160.0' in page
        assert prefill.live.statistics().kv_blocks_used == 0


@pytest.mark.parametrize(
    "slow", [{"kv_cache_transfer_latency": "600s"}, {"kv_cache_transfer_time_per_token": "60s"}]
)
async def test_a_prompt_takes_its_time_to_come(serve, eventually, slow):
    """A fixed one, and more for each token: until then the decode engine has nothing to do."""
    async with serve() as prefill, serve(failures=FailureSettings(**slow)) as decode:
        params = await prefilled(prefill)
        asking = asyncio.ensure_future(
            decode.client.post(TEXT, json=BODY | {"max_tokens": 5, "kv_transfer_params": params})
        )
        await eventually(lambda: prefill.live.statistics().kv_blocks_used == 0)
        assert decode.live.statistics().submitted_total == 0
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_blocks_that_nobody_reads_are_let_go(serve, eventually):
    """After the time for which they are held, without anybody asking."""
    async with serve(kv_hold_s=0.02) as prefill:
        await prefilled(prefill)
        await eventually(lambda: prefill.live.statistics().kv_blocks_used == 0)


@pytest.mark.parametrize("stale", [{"remote_block_ids": [99]}, {"remote_engine_id": "x"}, {"remote_port": 1}])
async def test_blocks_that_are_not_there_are_computed_again(pair, stale):
    """As in vLLM the request succeeds; the loss is counted."""
    prefill, decode = pair
    params = await prefilled(prefill) | stale
    answer = await decode.client.post(TEXT, json=BODY | {"kv_transfer_params": params})
    assert answer.status_code == 200
    seen = await protocol(decode)
    assert (seen["seen"]["prompt computed again"], seen["deviations"]) == (1, {"stale_params": 1})


async def test_blocks_are_read_once_and_held_for_a_time(serve):
    """The second reader finds nothing, nor does who comes when the time is over."""
    async with serve(kv_hold_s=0.0) as late, serve() as prefill, serve() as decode:
        params = await prefilled(prefill)
        for _ in range(2):
            await decode.client.post(TEXT, json=BODY | {"kv_transfer_params": params})
        await decode.client.post(TEXT, json=BODY | {"kv_transfer_params": await prefilled(late)})
        seen = (await protocol(decode))["seen"]
        assert (seen["prompt received"], seen["prompt computed again"]) == (1, 2)
        assert (await protocol(late))["held_expired"] == 1


async def test_checked_decodes_are_refused_where_their_params_are_wrong(serve):
    """Stale blocks, another prompt, missing fields: 400 with the field, when the protocol is checked."""
    async with serve() as prefill, serve(check_protocol=True) as decode:
        params = await prefilled(prefill)
        other = {"prompt": "Something else"}
        for changes, message in (
            ({"kv_transfer_params": params | {"remote_block_ids": [7]}}, "does not hold these blocks"),
            ({"kv_transfer_params": params} | other, "prefilled another prompt"),
            ({"kv_transfer_params": {"do_remote_prefill": True}}, "remote_engine_id, remote_block_ids"),
        ):
            answer = await decode.client.post(TEXT, json=BODY | changes)
            assert answer.status_code == 400
            assert message in answer.json()["error"]["message"]
            assert answer.json()["error"]["param"].startswith("kv_transfer_params")


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"stream": True}, "prefill_streams"),
        ({"max_tokens": 2}, "prefill_max_tokens"),
        ({"max_tokens": None}, "prefill_max_tokens"),
        ({"n": 2}, "prefill_n"),
        ({"prompt": ["a", "b"]}, "prefill_n"),
        ({"kv_transfer_params": PREFILL | {"remote_host": "x"}}, "prefill_remote_fields"),
        ({"kv_transfer_params": PREFILL | {"do_remote_prefill": True}}, "both_sides"),
        ({"kv_transfer_params": {"do_remote_prefill": True}}, "wrong_role"),
        ({"kv_transfer_params": None, "max_tokens": 9}, "prefill_max_tokens"),
    ],
)
async def test_checked_prefills_are_refused_where_they_ask_for_more(pair, changes, check):
    """Each deviation is a 400, and counted by its name."""
    prefill, _ = pair
    answer = await prefill.client.post(TEXT, json=BODY | {"kv_transfer_params": PREFILL} | changes)
    assert answer.status_code == 400
    assert check in (await protocol(prefill))["deviations"]


@pytest.mark.parametrize(
    "params", [3, {"do_remote_decode": "yes"}, {"remote_port": 0}, {"remote_block_ids": "all"}]
)
async def test_malformed_params_are_a_400(serve, params):
    """What has not even the types of the form is refused by everyone."""
    async with serve() as server:
        answer = await server.client.post(TEXT, json=BODY | {"kv_transfer_params": params})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("kv_transfer_params")


async def test_more_tokens_than_the_limit_cannot_be_the_least(serve):
    """min_tokens that a gateway left beside max_tokens 1 is refused, as vLLM refuses it."""
    async with serve() as server:
        answer = await server.client.post(TEXT, json=BODY | {"min_tokens": 2})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "min_tokens")


@pytest.fixture
async def sglang(serve):
    """A prefill and a decode engine of SGLang's form."""
    both = {"api": "sglang", "check_protocol": True, "bootstrap_timeout_s": 10}
    async with (
        serve(role="prefill", bootstrap=True, **both) as prefill,
        serve(role="decode", **both) as decode,
    ):
        yield prefill, decode


def room(prefill, number):
    return {"bootstrap_host": "127.0.0.1", "bootstrap_port": prefill.bootstrap_port, "bootstrap_room": number}


async def test_sglangs_form_meets_in_a_room(sglang):
    """Whichever side comes first waits for the other; both then answer."""
    prefill, decode = sglang
    for first, second in ((prefill, decode), (decode, prefill)):
        body = BODY | {"max_tokens": 3} | room(prefill, 5 if first is prefill else 6)
        early = asyncio.ensure_future(first.client.post(TEXT, json=body))
        await until_rooms(prefill, 1)
        assert not early.done()
        assert first.live.statistics().submitted_total == second.live.statistics().submitted_total
        late = await second.client.post(TEXT, json=body)
        assert [(await early).status_code, late.status_code] == [200, 200]
    assert (await protocol(prefill))["seen"] == {"bootstrap prefill": 2, "prompt sent": 2}
    assert (await protocol(decode))["seen"] == {"bootstrap decode": 2, "prompt received": 2}
    assert (await protocol(prefill))["open_rooms"] == 0


async def test_every_sequence_has_its_room(sglang):
    """Lists are one to one; a single number stands for consecutive rooms."""
    prefill, decode = sglang
    batch = BODY | {"prompt": ["a", "b"]}
    for rooms in ({"bootstrap_room": [20, 30]}, {"bootstrap_room": 40}):
        body = batch | room(prefill, 0) | rooms
        answers = await asyncio.gather(*(each.client.post(TEXT, json=body) for each in sglang))
        assert [answer.status_code for answer in answers] == [200, 200]
    short = await decode.client.post(TEXT, json=batch | room(prefill, [50]))
    assert (short.status_code, short.json()["error"]["param"]) == (400, "bootstrap_room")


async def test_sglangs_deviations_are_refused(sglang):
    """No room, no host, a room twice, another prompt than the prefill side's."""
    prefill, decode = sglang
    for engine in sglang:
        missing = await engine.client.post(TEXT, json=BODY)
        assert (missing.status_code, missing.json()["error"]["param"]) == (400, "bootstrap_room")
    hostless = await decode.client.post(TEXT, json=BODY | {"bootstrap_room": 1})
    assert (hostless.status_code, hostless.json()["error"]["param"]) == (400, "bootstrap_host")
    first = prefill.client.post(TEXT, json=BODY | room(prefill, 7))
    other = decode.client.post(TEXT, json=BODY | {"prompt": "else"} | room(prefill, 7))
    assert [answer.status_code for answer in await asyncio.gather(first, other)] == [200, 400]
    again = await prefill.client.post(TEXT, json=BODY | room(prefill, 7))
    assert (again.status_code, again.json()["error"]["param"]) == (400, "bootstrap_room")
    assert (await protocol(decode))["deviations"] == {"no_room": 1, "no_bootstrap_host": 1, "other_prompt": 1}


async def test_a_side_that_does_not_come_ends_the_other(serve):
    """A 500 after the timeout; the engine has not worked for it."""
    both = {"api": "sglang", "bootstrap_timeout_s": 0.05}
    async with (
        serve(role="prefill", bootstrap=True, **both) as prefill,
        serve(role="decode", **both) as decode,
    ):
        for engine in (prefill, decode):
            answer = await engine.client.post(TEXT, json=BODY | room(prefill, 1))
            assert answer.status_code == 500
            assert engine.live.statistics().submitted_total == 0
        gone = await decode.client.post(TEXT, json=BODY | room(prefill, 2) | {"bootstrap_port": 1})
        assert gone.status_code == 500


async def test_a_prefill_that_is_cancelled_ends_its_decode(serve, eventually, slow_engine):
    """The decode side learns at once that nothing will come."""
    sglang = {"api": "sglang", "bootstrap_timeout_s": 600}
    async with (
        serve(role="prefill", bootstrap=True, engine=slow_engine, **sglang) as prefill,
        serve(role="decode", **sglang) as decode,
    ):
        prefilling = asyncio.ensure_future(prefill.client.post(TEXT, json=BODY | room(prefill, 1)))
        decoding = asyncio.ensure_future(decode.client.post(TEXT, json=BODY | room(prefill, 1)))
        await eventually(lambda: prefill.live.statistics().running == 1)
        prefilling.cancel()
        assert (await decoding).status_code == 500
        assert (await protocol(prefill))["open_rooms"] == 0


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_who_waits_for_the_other_side_is_let_go_as_the_server_stops(serve, fast, role):
    """Long before the timeout; the request gets a 500."""
    settings = ServerSettings(
        engine=fast(), models=("tiny",), api="sglang", role=role, bootstrap_timeout_s=600, drain_s=0
    )
    sock = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    async with (
        serve(api="sglang", role="prefill", bootstrap=True, bootstrap_timeout_s=600) as peer,
        httpx2.AsyncClient(base_url=url, timeout=20, verify=False) as client,
    ):
        async with running(settings, sock):
            asking = asyncio.ensure_future(client.post(TEXT, json=BODY | room(peer, 1)))
            async with asyncio.timeout(60):
                while not (await client.get("/admin/protocol")).json()["seen"]:
                    await asyncio.sleep(0.001)
            if role == "decode":
                await until_rooms(peer, 1)
        assert (await asking).status_code == 500


async def test_engines_find_prompts_in_a_store_that_they_share(serve, tmp_path):
    """After a plain prefill the decode engine computes only what the prompt has beyond full blocks."""
    prompt = list(range(100))
    shared = {"kv_store": str(tmp_path / "blocks")}
    async with serve(role="prefill", check_protocol=True, **shared) as prefill, serve(**shared) as decode:
        await prefill.client.post(TEXT, json=BODY | {"prompt": prompt})
        await decode.client.post(TEXT, json=BODY | {"prompt": prompt, "max_tokens": 5})
        assert decode.live.statistics().prefill_tokens_total == 4
        assert (await protocol(decode))["seen"] == {"prefix found in the store": 1}
        salted = BODY | {"prompt": prompt, "cache_salt": "other"}
        await decode.client.post(TEXT, json=salted)
        assert decode.live.statistics().prefill_tokens_total == 104
        streamed = await prefill.client.post(TEXT, json=BODY | {"stream": True})
        assert streamed.status_code == 400


def test_a_store_that_cannot_be_is_said_plainly(tmp_path):
    """The message has the option and the path."""
    with pytest.raises(OSError, match=r"--kv-store: cannot use .*/missing/blocks"):
        BlockStore(str(tmp_path / "missing" / "blocks"))
