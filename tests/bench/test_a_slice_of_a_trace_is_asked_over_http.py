"""The contest over HTTP asks what the trace says, and judges what came of it."""

import json

import pytest

import routing_live
from live import clients, prompts

ROWS = [
    {"timestamp": 0, "input_length": 700, "output_length": 90, "hash_ids": [0, 1]},
    {"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [0, 2]},
    {"timestamp": 3000, "input_length": 1500, "output_length": 7, "hash_ids": [0, 2, 3]},
]


@pytest.fixture
def trace(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def test_prompts_share_what_their_blocks_share(trace):
    """Prompts are as long as the trace says, at four bytes a token, and equal where their ids are."""
    asked = prompts.read(trace, requests=10, rate=2.0, most_output=48, seed=1)
    texts = {request.prompt_tokens: json.loads(request.body())["messages"][0]["content"] for request in asked}
    assert {tokens: len(text) for tokens, text in texts.items()} == {n: 4 * n for n in (700, 1024, 1500)}
    assert texts[1500].startswith(texts[1024])
    assert texts[700][: 4 * 512] == texts[1024][: 4 * 512]
    assert texts[700][4 * 512 :] != texts[1024][4 * 512 : 4 * 700]


def test_times_have_the_rate_that_is_asked_for(trace):
    """Equal seeds give equal times; so many requests take so long."""
    one, other = (prompts.read(trace, requests=10, rate=2.0, most_output=48, seed=1) for _ in range(2))
    assert one == other
    assert [request.at_s for request in one] == sorted(request.at_s for request in one)
    assert one[-1].at_s == pytest.approx(3 / 2.0)
    assert max(request.output_tokens for request in one) == 48


def test_requests_without_an_answer_are_beyond_every_limit(trace):
    """Of four requests one was late, one cut and one refused: a quarter is within the limit."""
    asked = [prompts.Request(0.0, 1000, 1, ())] * 4
    seen = [
        clients.Seen(200, 0.5, 1.0, True),
        clients.Seen(200, 2.5, 3.0, True),
        clients.Seen(200, 0.1, 0.2, False),
        clients.Seen(503, None, 0.1, True),
    ]
    did = [{"prefilled_tokens": 900}, {"prefilled_tokens": 1100}]
    row = routing_live.summary(seen, did, asked, slo_s=2.0)
    assert (row["answered"], row["within_slo"], row["hit_rate"], row["balance"]) == (2, 0.25, 0.5, 1.1)
    assert (row["ttft_p50_s"], row["ttft_p99_s"]) == (0.5, 2.5)


def test_a_router_that_answers_nothing_has_no_times():
    """Neither 0 s nor an error: its row has dashes."""
    asked = [prompts.Request(0.0, 1000, 1, ())]
    row = routing_live.summary([clients.Seen(503, None, 0.1, True)], [{"prefilled_tokens": 0}], asked, 2.0)
    assert (row["ttft_p90_s"], row["within_slo"], row["balance"]) == (None, 0.0, 0.0)
