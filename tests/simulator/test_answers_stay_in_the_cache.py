import pytest

from headgate.simulator.model import BlockStored, Cancellation, Engine, Submission, run_virtual
from headgate.simulator.server import KvEventsConfig

CHAT = "/v1/chat/completions"


@pytest.fixture
def run_in_turn(small_engine):
    """Runs events on one engine, each list of them once the one before is over; gives it and the ends."""

    def run(*turns, **config):
        engine = Engine(small_engine(**config))
        ends = {}
        for events in turns:
            ends.update((end.request_id, end) for end in run_virtual(engine, events).finished)
        return engine, ends

    return run


def test_the_next_turn_finds_the_answer(run_in_turn, request_of):
    """Blocks of 4 tokens: 6 of prompt and 7 of answer fill three, as the last token is never computed."""
    first = request_of("a", 6, 7, blocks=(1,), answer_blocks=(2, 3))
    _, ends = run_in_turn(
        [Submission(0.0, first)], [Submission(0.0, request_of("b", 20, 1, blocks=(1, 2, 3, 4, 5)))]
    )
    assert ends["b"].cached_tokens == 12


def test_the_last_token_of_an_answer_is_not_computed(run_in_turn, request_of):
    """6 + 6 tokens are three blocks, but the keys and values of only eleven are there."""
    first = request_of("a", 6, 6, blocks=(1,), answer_blocks=(2, 3))
    _, ends = run_in_turn(
        [Submission(0.0, first)], [Submission(0.0, request_of("b", 20, 1, blocks=(1, 2, 3)))]
    )
    assert ends["b"].cached_tokens == 8


def test_an_answer_without_all_hashes_of_its_prompt_is_not_kept(run_in_turn, request_of):
    """What a block is depends on all before it."""
    engine, _ = run_in_turn([Submission(0.0, request_of("a", 8, 9, blocks=(1,), answer_blocks=(3, 4)))])
    assert engine.statistics().kv_blocks_cached == 1


def test_an_answer_that_was_cut_is_kept_as_far_as_it_came(run_in_turn, request_of):
    """A step takes a second at least: after ten the client is gone, with a handful of tokens computed."""
    first = request_of("a", 4, 40, blocks=(1,), answer_blocks=range(2, 12))
    engine, ends = run_in_turn([Submission(0.0, first), Cancellation(10.0, "a")])
    computed = 4 + ends["a"].output_tokens - 1
    assert engine.statistics().kv_blocks_cached == computed // 4 > 1


def test_a_preempted_request_finds_its_answer_again(small_engine, request_of):
    """What it had generated is looked up as its prompt is."""
    engine = Engine(small_engine(kv_blocks=16))
    events = [
        Submission(0.0, request_of("old", 28, 12)),
        Submission(0.0, request_of("new", 20, 20, blocks=range(5), answer_blocks=range(5, 15))),
    ]
    found = []
    run_virtual(
        engine,
        events,
        on_step=lambda outcome: found.extend(
            zip(outcome.plan.admitted, outcome.plan.cached_tokens, strict=True)
        ),
    )
    assert [name for name, _ in found] == ["old", "new", "new"]
    assert found[-1][1] > 20


def test_events_chain_the_answer_to_its_prompt(small_engine, request_of):
    """Block by block, as each is full."""
    engine = Engine(small_engine())
    engine.submit(request_of("a", 6, 12, blocks=(1,), answer_blocks=(2, 3, 4)), 0.0)
    while engine.step(0.0) is not None:
        pass
    stored = [event for event in engine.take_kv_events() if isinstance(event, BlockStored)]
    assert [(event.parent, event.hashes, event.position) for event in stored] == [
        (None, (1,), 0),
        (1, (2,), 1),
        (2, (3,), 2),
        (3, (4,), 3),
    ]


async def test_a_conversation_goes_on_where_it_ended(serve, fast):
    """The second turn computes what the person wrote, and the block where the cached tokens end."""
    messages = [{"role": "user", "content": "How deep is the canal?"}]
    async with serve(engine=fast(block_size=4)) as server:
        body = {"model": "tiny", "messages": messages, "max_tokens": 50}
        first = (await server.client.post(CHAT, json=body)).json()
        messages += [first["choices"][0]["message"], {"role": "user", "content": "And how wide is it?"}]
        second = (await server.client.post(CHAT, json=body)).json()
    assert first["usage"]["prompt_tokens"] == 6
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == (6 + 50 - 1) // 4 * 4


@pytest.mark.parametrize(
    ("more", "cached"),
    [({"stop": ["Flow", "Gate", " "]}, 4), ({"response_format": {"type": "json_object"}}, 4), ({"n": 3}, 52)],
)
async def test_every_kind_of_answer_is_found_as_far_as_it_is_text(serve, fast, more, cached):
    """Stop strings and JSON end an answer early; of several choices each is there."""
    messages = [{"role": "user", "content": "How deep is the canal?"}]
    async with serve(engine=fast(block_size=4)) as server:
        body = {"model": "tiny", "messages": messages, "max_tokens": 50} | more
        first = (await server.client.post(CHAT, json=body)).json()
        for choice in first["choices"]:
            turns = [*messages, choice["message"], {"role": "user", "content": "And how wide is it?"}]
            again = {"model": "tiny", "messages": turns, "max_tokens": 1}
            second = (await server.client.post(CHAT, json=again)).json()
            assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == cached


async def ids_of(server, answer):
    """The tokens that an answer was generated as."""
    text = answer["choices"][0]["text"]
    return (await server.client.post("/tokenize", json={"prompt": text})).json()["tokens"]


async def test_ids_that_were_generated_are_found_as_a_prompt(serve, fast):
    """The ids of the text that comes out go in again as they are; others are not found."""
    async with serve(engine=fast(block_size=4)) as server:
        asked = {"model": "tiny", "prompt": [7] * 10, "max_tokens": 30}
        answer = (await server.client.post("/v1/completions", json=asked)).json()
        said = await ids_of(server, answer)
        for ids, cached in (([7] * 10 + said, 36), ([7] * 10 + said[1:] + said, 8)):
            body = {"model": "tiny", "prompt": ids, "max_tokens": 1}
            usage = (await server.client.post("/v1/completions", json=body)).json()["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == cached


async def test_published_events_have_the_tokens_of_answers(serve, fast):
    """A reader that hashes for itself finds what the next turn will ask for."""
    local = {"endpoint": "tcp://127.0.0.1:0", "replay_endpoint": "tcp://127.0.0.1:0"}
    told = []
    async with serve(engine=fast(block_size=4), kv_events=KvEventsConfig(**local)) as server:
        for engine in server.live.engines:
            engine.tell = lambda events, tokens_of: told.extend(
                (event.position, tokens_of(event).tolist()) for event in events
            )
        body = {"model": "tiny", "prompt": [7] * 10, "max_tokens": 11}
        answer = (await server.client.post("/v1/completions", json=body)).json()
        tokens = [7] * 10 + await ids_of(server, answer)
    assert [position for position, _ in told] == [0, 2, 3, 4]
    assert [token for _, ids in told for token in ids] == tokens[:20]
