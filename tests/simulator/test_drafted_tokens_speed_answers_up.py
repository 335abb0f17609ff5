import pytest

from headgate.simulator.model import ConfigError, Engine, Submission, run_virtual

TEXT = "/v1/completions"


@pytest.fixture
def run(small_engine):
    """Runs requests together on an engine that drafts; gives it and what each step emitted."""

    def make(*requests, **config):
        engine = Engine(small_engine(**{"max_model_len": 4000, "kv_blocks": 2000} | config))
        emitted = []
        events = [Submission(0.0, request) for request in requests]
        run_virtual(engine, events, on_step=lambda outcome: emitted.append(outcome.emitted))
        return engine, emitted

    return make


def tokens_of(name, emitted):
    return [each.tokens for step in emitted for each in step if each.request_id == name]


def test_what_is_accepted_comes_out_in_one_step(run, request_of):
    """With every draft of 3 accepted, 12 tokens after the first take three steps."""
    engine, emitted = run(request_of("a", 4, 13), draft_tokens=3, draft_acceptance=1.0)
    assert tokens_of("a", emitted) == [1, 4, 4, 4]
    told = engine.statistics()
    assert (told.output_tokens_total, told.drafts_total, told.draft_tokens_total) == (13, 3, 9)
    assert (told.accepted_tokens_total, dict(told.accepted_by_position)) == (9, {0: 3, 1: 3, 2: 3})


def test_an_answer_ends_amid_a_draft(run, request_of):
    """Tokens beyond its length are not given out."""
    _, emitted = run(request_of("a", 4, 7), draft_tokens=3, draft_acceptance=1.0)
    assert tokens_of("a", emitted) == [1, 4, 2]


def test_drafts_in_vain_cost_their_time(run, request_of):
    """A step of 1 s + 0.1 s a sequence + 0.001 s a token of context has three more to draft and check."""
    _, emitted = run(request_of("a", 4, 3), draft_tokens=3, draft_acceptance=0.0, draft_token_s=0.01)
    gaps = [each.gap_s for step in emitted for each in step]
    assert tokens_of("a", emitted) == [1, 1, 1]
    assert gaps[1:] == pytest.approx([1 + 0.4 + 0.004 + 0.03, 1 + 0.4 + 0.005 + 0.03])


def test_steps_give_as_many_tokens_as_the_theory_says(run, request_of):
    """(1 - a^(k+1)) / (1 - a) on average, for a chance a of each of k tokens."""
    _, emitted = run(request_of("a", 4, 3900), draft_tokens=4, draft_acceptance=0.7)
    tokens = tokens_of("a", emitted)[1:]
    assert sum(tokens) / len(tokens) == pytest.approx((1 - 0.7**5) / (1 - 0.7), rel=0.05)


def test_what_is_accepted_does_not_depend_on_who_else_runs(run, request_of):
    """The same request has the same steps, alone or not."""
    config = {"draft_tokens": 3, "draft_acceptance": 0.5}
    _, alone = run(request_of("a", 4, 100), **config)
    _, beside = run(request_of("b", 40, 300), request_of("a", 4, 100), **config)
    assert tokens_of("a", alone) == tokens_of("a", beside)


def test_drafts_need_blocks_too(run, request_of):
    """16 blocks of 4 tokens are enough until the short answer ends, but not for drafts of the long one."""
    requests = [request_of("short", 28, 4), request_of("long", 24, 12)]
    cramped = {"max_model_len": 64, "kv_blocks": 16, "draft_acceptance": 0.0}
    plain, _ = run(*requests, **cramped)
    drafting, _ = run(*requests, **cramped, draft_tokens=9)
    assert plain.statistics().preempted_total == 0
    assert drafting.statistics().preempted_total == 1


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("draft_tokens", -1, "draft_tokens: must be at least 0, got -1"),
        ("draft_acceptance", 1.2, "draft_acceptance: must be 0 to 1, got 1.2"),
        ("draft_token_s", -0.1, "draft_token_s: must be at least 0, got -0.1"),
    ],
)
def test_settings_of_drafts_are_checked(small_engine, field, value, problem):
    """With the field, its value, and what would do."""
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        small_engine(**{field: value})


async def test_the_page_counts_drafts_in_vllms_words(serve, fast):
    """And every token is told, streamed or not."""
    engine = fast(draft_tokens=2, draft_acceptance=1.0)
    async with serve(engine=engine) as server:
        body = {"model": "tiny", "prompt": "How deep?", "max_tokens": 10}
        whole = (await server.client.post(TEXT, json=body)).json()
        streamed = (await server.client.post(TEXT, json=body | {"stream": True})).text
        page = (await server.client.get("/metrics")).text
    assert whole["usage"]["completion_tokens"] == 10
    assert streamed.count('"text":') == 10
    labels = '{engine="0",model_name="tiny"}'
    assert f"vllm:spec_decode_num_drafts_total{labels} 6.0" in page
    assert f"vllm:spec_decode_num_draft_tokens_total{labels} 12.0" in page
    assert f"vllm:spec_decode_num_accepted_tokens_total{labels} 12.0" in page
    assert 'accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 6.0' in page
    assert f"vllm:generation_tokens_total{labels} 20.0" in page


async def test_sglang_tells_the_mean(serve, fast):
    """Accepted length and rate; engines without drafts say nothing of them."""
    async with serve(engine=fast(draft_tokens=2, draft_acceptance=1.0), api="sglang") as server:
        body = {"model": "tiny", "prompt": "How deep?", "max_tokens": 10}
        await server.client.post(TEXT, json=body)
        page = (await server.client.get("/metrics")).text
    assert _value(page, "sglang:spec_accept_length") == 3
    assert _value(page, "sglang:spec_accept_rate") == 1
    async with serve() as server:
        assert "spec_decode" not in (await server.client.get("/metrics")).text


def _value(page, name):
    return next(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))


async def test_ranks_are_summed(serve, fast):
    """What two engines behind one server drafted."""
    engine = fast(draft_tokens=2, draft_acceptance=1.0)
    async with serve(engine=engine, data_parallel_size=2) as server:
        for rank in "01":
            body = {"model": "tiny", "prompt": "How deep?", "max_tokens": 10}
            await server.client.post(TEXT, json=body, headers={"x-data-parallel-rank": rank})
        told = server.live.statistics()
    assert (told.drafts_total, told.accepted_by_position) == (6, {0: 6, 1: 6})
