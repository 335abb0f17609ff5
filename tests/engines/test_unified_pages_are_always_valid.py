"""Whatever an engine sends, its page with unified names can be scraped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headgate import engines
from headgate.engines import unified

VLLM = engines.named("vLLM")
NAMES = st.sampled_from(
    [
        "vllm:num_requests_waiting",
        "vllm:e2e_request_latency_seconds_bucket",
        "kthena:num_requests_waiting",
        "x",
    ]
)
LABELS = st.sampled_from(
    [
        "",
        "{}",
        '{a="b"}',
        '{a="b",}',
        '{a="b",a="c"}',
        '{a="b}',
        "{a=b}",
        '{le="+Inf"}',
        '{a="\\n\\""}',
        '{a="\\x"}',
    ]
)
VALUES = st.sampled_from(["1", "-1.5e3", "NaN", "+Inf", "0x1", "1_0", "1 2", "1 x", "", "nan", "1e9999"])
LINES = st.one_of(
    st.builds(lambda name, labels, value: f"{name}{labels} {value}", NAMES, LABELS, VALUES),
    st.builds(lambda kind, name, more: f"# {kind} {name} {more}", st.sampled_from(["TYPE", "HELP"]), NAMES,
              st.sampled_from(["gauge", "histogram", "bogus", ""])),
    st.sampled_from(["", "# EOF", "#", "\r", "headgate_runtime_engine_up 5"]),
    st.text(max_size=40),
)  # fmt: skip


def parsed(text):
    return list(text_string_to_metric_families(text.decode()))


@given(st.lists(LINES, max_size=30))
def test_a_page_of_nearly_valid_lines_is_valid(lines):
    """Each line is a sample or a comment of a valid form, and no family is described twice."""
    page = unified.unify("\n".join(lines).encode("utf-8", "surrogatepass"), VLLM, b"headgate_runtime_")
    parsed(page.text)
    comments = [tuple(line.split(b" ", 3)[1:3]) for line in page.text.split(b"\n") if line.startswith(b"#")]
    assert len(comments) == len(set(comments))
    assert b"headgate_runtime_" not in page.text
    again = unified.unify(page.text, VLLM, b"headgate_runtime_")
    assert again == unified.UnifiedPage(page.text, 0)


@given(st.binary(max_size=300))
def test_any_bytes_make_a_valid_page(page):
    """None of them reaches the scraper in a form that it refuses."""
    parsed(unified.unify(page, VLLM).text)


@given(st.lists(st.sampled_from([b'{a="', b'b"', b",", b"}", b"x", b" ", b"1", b"\\", b"{"]), max_size=60))
def test_what_is_left_out_is_counted(pieces):
    """A line is either kept or counted."""
    page = unified.unify(b"x" + b"".join(pieces) + b"\ny 1", VLLM)
    assert page.text.count(b"\n") + page.dropped_lines == 2


def test_the_first_name_that_the_page_has_counts():
    """A page with an old and a new name does not count twice."""
    page = unified.unify(
        b'vllm:time_per_output_token_seconds_bucket{le="+Inf"} 7\n'
        b'vllm:inter_token_latency_seconds_bucket{le="+Inf"} 9\n',
        VLLM,
    )
    assert page.text.endswith(
        b"# TYPE kthena:time_per_output_token_seconds histogram\n"
        b'kthena:time_per_output_token_seconds_bucket{le="+Inf"} 9\n'
    )


def test_names_that_the_page_already_has_are_not_added():
    """An engine may have unified names itself."""
    text = b"vllm:num_requests_waiting 1\nkthena:num_requests_waiting 2\n"
    assert unified.unify(text, VLLM).text == text


def test_an_engine_without_known_names_keeps_its_page():
    """Any server with OpenAI's API."""
    text = b"# TYPE requests counter\nrequests 3\n"
    assert unified.unify(text, engines.named("other")).text == text


@pytest.mark.parametrize(
    "line", [b'x{a="' + b"\\" * 9000, b"x" * 9000, b"x{" + b'a="b",' * 2000, b" " * 9000 + b"x"]
)
def test_long_lines_take_linear_time(line):
    """4 MB of the worst lines end; a pattern that backtracks would not."""
    unified.unify((line + b"\n") * (4_000_000 // len(line)), VLLM)


def test_the_number_of_lines_is_bounded():
    """What is beyond it is left out, and counted."""
    page = unified.unify(b"x 1\n" * (unified.MAX_LINES + 500), VLLM)
    assert page.text.count(b"\n") == unified.MAX_LINES
    assert page.dropped_lines == 501  # the last one is empty
