import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest, TraceError

GOOD = {"timestamp": 27482, "input_length": 1030, "output_length": 52, "hash_ids": [46, 47, 2354]}


def mooncake(*lines: object) -> list[TimedRequest]:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return list(traces.requests("t.jsonl", texts, traces.Mooncake()))


def azure(*lines: str) -> list[TimedRequest]:
    return list(traces.requests("t.csv", [line.encode() for line in lines], traces.Azure()))


def burstgpt(*lines: str) -> list[TimedRequest]:
    return list(traces.requests("t.csv", [line.encode() for line in lines], traces.BurstGpt()))


def problems(read, *lines) -> list[str]:
    with pytest.raises(TraceError) as caught:
        read(*lines)
    return str(caught.value).splitlines()


def test_a_line_of_mooncake_is_a_request_with_its_blocks():
    """Milliseconds become seconds, and the hashes are kept in their order; blank lines are none."""
    assert mooncake(GOOD, b"\n", {**GOOD, "timestamp": 30000.5, "more": "passed over"}) == [
        TimedRequest(
            at_s=27.482, prompt_tokens=1030, output_tokens=52, prefix=(46, 47, 2354), block_tokens=512
        ),
        TimedRequest(
            at_s=30.0005, prompt_tokens=1030, output_tokens=52, prefix=(46, 47, 2354), block_tokens=512
        ),
    ]


def test_a_line_of_azure_is_a_request_after_the_first():
    """Times count from the first; seven digits of a second and zones are read; columns go by their names."""
    assert azure(
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.9799600,4808,10",
        "2023-11-16 18:17:05.4799600,110,27\r\n",
    ) == [
        TimedRequest(at_s=0.0, prompt_tokens=4808, output_tokens=10),
        TimedRequest(at_s=1.5, prompt_tokens=110, output_tokens=27),
    ]
    later = azure(
        "\ufeffGeneratedTokens,TIMESTAMP,ContextTokens",
        "5,2024-05-10 00:00:00.000000+00:00,7",
        "6,2024-05-10 01:00:00.250000+01:00,8",
    )
    assert [(each.at_s, each.prompt_tokens, each.output_tokens) for each in later] == [
        (0, 7, 5),
        (0.25, 8, 6),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({**GOOD, "timestamp": -1}, "timestamp: -1 is not milliseconds since the trace began, at least 0"),
        (
            {**GOOD, "input_length": "6758"},
            'input_length: "6758" is not a whole number of tokens, at least 1',
        ),
        ({**GOOD, "input_length": 0}, "input_length: 0 is not a whole number of tokens, at least 1"),
        ({**GOOD, "output_length": 1.5}, "output_length: 1.5 is not a whole number of tokens, at least 1"),
        ({**GOOD, "hash_ids": [1, "2", 3]}, 'hash_ids: [1,"2",3] is not a list of whole numbers'),
        (
            {**GOOD, "hash_ids": [1]},
            "hash_ids: 1 hashes for 1030 tokens, which are 3 blocks of 512; "
            "say how many tokens a block of this trace has (--block-tokens)",
        ),
        (
            {"timestamp": 0, "input_length": 1, "output_length": 1},
            "hash_ids: is missing; it is a list of whole numbers",
        ),
        (
            [1],
            "is not an object; each line is one with timestamp, input_length, output_length, hash_ids",
        ),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_field_and_value(line, told):
    """File, line, field, value, and what would be right."""
    assert problems(mooncake, GOOD, line) == [f"t.jsonl:2: {told}"]


def test_text_that_is_no_json_is_told_as_that():
    """Whatever stands there, the line is named and there is no traceback."""
    for line in (b'{"timestamp": ', b"\xff\xfe", b"[" * 5000, b'{"timestamp": 0}}'):
        assert problems(mooncake, GOOD, line)[0].startswith("t.jsonl:2: ")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["2023-11-16 18:17:03.97,4808,10"], "t.csv:1: the heading"),
        (
            ["TIMESTAMP,ContextTokens", "2023-11-16 18:17:03.97,4808"],
            't.csv:1: the heading "TIMESTAMP,ContextTokens" lacks GeneratedTokens; '
            "the first line is TIMESTAMP,ContextTokens,GeneratedTokens",
        ),
        (
            ["TIMESTAMP,ContextTokens,GeneratedTokens", "yesterday,1,1"],
            't.csv:2: TIMESTAMP: "yesterday" is not a time; write it as 2023-11-16 18:17:03.9799600',
        ),
        (
            ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03.97,0,1"],
            't.csv:2: ContextTokens: "0" is not a whole number of tokens, at least 1',
        ),
        (
            ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03.97,1"],
            "t.csv:2: 2 columns, not the 3 of the heading",
        ),
        (["TIMESTAMP,ContextTokens,GeneratedTokens"], "t.csv:1: has no requests"),
    ],
)
def test_what_is_wrong_with_a_csv_is_told_with_the_line(lines, told):
    """As for the other format."""
    assert problems(azure, *lines)[0].startswith(told)


BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"


def test_a_line_of_burstgpt_is_a_request_unless_it_failed():
    """Seconds count from the first request; the names of sessions become numbers, where there are any."""
    assert burstgpt(BURST, "5,GPT-4,9,0,9,API log", "5,GPT-4,472,18,490,API log", "45,x,1087,230,1317,") == [
        TimedRequest(at_s=0.0, prompt_tokens=472, output_tokens=18),
        TimedRequest(at_s=40.0, prompt_tokens=1087, output_tokens=230),
    ]
    told = burstgpt(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
        *(
            f"{at},{session},1,GPT-4,10,10,20,Conversation log"
            for at, session in enumerate(["a", "b", "", "a"])
        ),
    )
    assert [each.session for each in told] == [0, 1, -1, 0]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            ["Timestamp,Model,Request tokens"],
            't.csv:1: the heading "Timestamp,Model,Request tokens" lacks Response tokens; '
            "the first line has Timestamp,Request tokens,Response tokens",
        ),
        ([BURST, "now,x,1,1,2,"], 't.csv:2: Timestamp: "now" is not a time; write it in seconds'),
        ([BURST, "nan,x,1,1,2,"], 't.csv:2: Timestamp: "nan" is not a time'),
        ([BURST, "1,x,-1,1,2,"], 't.csv:2: Request tokens: "-1" is not a whole number of tokens'),
        ([BURST, "1,x,1"], "t.csv:2: 3 columns, not the 6 of the heading"),
        ([BURST, "1,x,1,0,1,"], "t.csv:1: has no requests"),
    ],
)
def test_what_is_wrong_with_burstgpt_is_told_with_the_line(lines, told):
    """As for the other formats."""
    assert problems(burstgpt, *lines)[0].startswith(told)


def test_a_file_of_another_kind_is_told_once():
    """With no column of the heading there, nothing is said of the lines below it."""
    assert len(problems(azure, "time,in,out", "1,2", "3", "4,5,6,7")) == 1


def test_all_mistakes_of_a_file_are_told_at_once_and_nothing_after_them_is_handed_on():
    """Ten at most: whoever has more has the wrong file."""
    bad = {**GOOD, "output_length": None}
    reading = traces.requests(
        "t", (json.dumps(each).encode() for each in [GOOD, bad, GOOD, bad]), traces.Mooncake()
    )
    assert next(reading).output_tokens == 52
    with pytest.raises(TraceError) as caught:
        next(reading)
    assert [problem.line for problem in caught.value.problems] == [2, 4]
    assert problems(mooncake, *[bad] * 50)[-2:] == [
        "t.jsonl:10: output_length: null is not a whole number of tokens, at least 1",
        "... and more",
    ]


def test_times_that_go_back_are_refused():
    """A replay would have to guess whether the time or the order is right."""
    assert problems(mooncake, {**GOOD, "timestamp": 3000}, {**GOOD, "timestamp": 1000}) == [
        "t.jsonl:2: the request comes 2 s before one above; sort the lines by time"
    ]


def test_a_line_without_an_end_is_bounded():
    """A file that is no trace is refused after a line's worth, not read into memory."""
    line = b"x" * (traces.MAX_LINE_BYTES + 1)
    assert problems(mooncake, line) == [
        f"t.jsonl:1: the line is longer than {traces.MAX_LINE_BYTES} bytes; is this a trace?"
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"timestamp": 0}\n', "mooncake"),
        (b"\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\n", "azure"),
        (b"Timestamp,Model,Request tokens,Response tokens\n", "burstgpt"),
        (b"start_s,requests_per_s\n", None),
        (b"", None),
    ],
)
def test_the_format_is_known_by_the_first_line(line, name):
    """What is neither is neither: it is for the caller to say so."""
    assert traces.detect(line) == name


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from(list(traces.FORMATS)))
def test_whatever_the_lines_hold_they_are_requests_or_told(lines, name):
    """No other error leaves a reader."""
    headings = {"azure": b"TIMESTAMP,ContextTokens,GeneratedTokens", "burstgpt": BURST.encode()}
    heading = [headings[name]] if name in headings else []
    try:
        read = list(traces.requests("t", [*heading, *lines], traces.FORMATS[name].reader()))
    except TraceError as error:
        assert error.problems
    else:
        assert read


def timed(*times: float) -> list[TimedRequest]:
    return [TimedRequest(at_s=at, prompt_tokens=n + 1, output_tokens=1) for n, at in enumerate(times)]


def test_a_grid_of_times_is_found_and_spread():
    """Bursts at every third second become arrivals in between, in the order of their new times."""
    bursts = timed(*(3.0 * (n // 10) + (0.001 if n // 10 % 7 == 3 else 0) for n in range(400)))
    assert traces.grid_s(bursts) == pytest.approx(3.0)
    spread = traces.arrange(bursts, traces.Arrivals(jitter_s=3.0), random.Random(1))
    times = [each.at_s for each in spread]
    assert times == sorted(times)
    assert len(set(times)) == 400
    assert all(0 <= each.at_s - bursts[each.prompt_tokens - 1].at_s < 3 for each in spread)
    assert traces.grid_s(spread) == 0


def test_times_without_a_grid_stay_as_they_are():
    """Neither requests by chance, nor one every three seconds, nor a clock of milliseconds is a grid."""
    rng = random.Random(2)
    assert traces.grid_s(timed(*sorted(rng.uniform(0, 100) for _ in range(300)))) == 0
    assert traces.grid_s(timed(*(3.0 * n for n in range(300)))) == 0
    assert traces.grid_s(timed(*(0.001 * (n // 3) for n in range(300)))) == 0
    assert traces.grid_s(timed(5.0, 5.0)) == 0


def test_limits_choose_requests_and_the_rate_only_moves_them():
    """The same requests in the same order, whatever the rate: two rates can be compared."""
    trace = timed(*range(100))
    chosen = traces.arrange(trace, traces.Arrivals(limit=60, duration_s=50), random.Random(1))
    assert [each.at_s for each in chosen] == list(range(50))
    faster = traces.arrange(trace, traces.Arrivals(duration_s=50, rate_scale=2), random.Random(1))
    assert [each.at_s for each in faster] == [at / 2 for at in range(50)]
    told = traces.arrange(trace, traces.Arrivals(rate_per_s=9.5, jitter_s=5), random.Random(1))
    slow = traces.arrange(trace, traces.Arrivals(rate_per_s=1.5, jitter_s=5), random.Random(1))
    assert traces.mean_rate(told) == pytest.approx(9.5)
    assert [each.prompt_tokens for each in told] == [each.prompt_tokens for each in slow]


def test_a_request_that_goes_on_where_one_ended_is_of_its_session():
    """Turns share all full blocks of the turn before; those that share a system prompt only are apart."""

    def prompt(tokens: int, *blocks: int) -> TimedRequest:
        return TimedRequest(at_s=0, prompt_tokens=tokens, output_tokens=1, prefix=blocks, block_tokens=10)

    found = traces.with_sessions(
        [
            prompt(25, 0, 1, 2),
            prompt(25, 0, 3, 4),
            prompt(38, 0, 1, 5, 6),  # the first one's second turn: its last block was not full
            prompt(12, 0, 7),
            prompt(15, 0, 8),
            prompt(52, 0, 1, 5, 9, 10, 11),
            prompt(41, 0, 1, 12, 13, 14),  # another way on from the first turn
            TimedRequest(at_s=0, prompt_tokens=9, output_tokens=1),
        ]
    )
    assert [each.session for each in found.requests] == [0, 1, 0, 2, 3, 0, 0, -1]
    assert (found.sessions, found.longest) == (4, 4)
