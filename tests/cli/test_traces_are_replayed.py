import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from headgate.cli.simulate import simulate, table
from headgate.cli.simulate.results import Results
from headgate.scheduling.configuration import NAMES

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulate"
TRACE = str(EXAMPLES / "trace.jsonl")
FLEET = str(EXAMPLES / "fleet.yaml")
SMALL = ("--limit", "60", "--replicas", "2")


def replayed(*words: str) -> Result:
    return CliRunner().invoke(simulate, ["trace", *words])


def rows(text: str) -> list[list[str]]:
    """The cells of the table's lines, from its headings to the empty line below."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("policy"))
    end = next((n for n in range(first, len(lines)) if not lines[n]), len(lines))
    return [line.split() for line in lines[first:end]]


def test_there_is_a_row_for_each_policy():
    """All of its requests are accounted for, and the heading says what was replayed, on what, judged how."""
    result = replayed(TRACE, "--fleet", FLEET, "--policy", "least-work,predicted")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{TRACE} (mooncake): 300 requests of 114 conversations in 79 s, ")
    assert (
        "3 x 8b-h100, 2 x 3b-l40s; objective: first token within 2 s, tokens after it 30 ms; seed 1"
        in result.output
    )
    headings, *policies = rows(result.output)
    assert [row[:2] for row in policies] == [["least-work", "300"], ["predicted", "300"]]
    assert all(row[-3:-1] == ["0", "0"] for row in policies)
    expected = "policy reqs p50 p90 p99 p50 p99 share req/s hits balance preempt failed refused sim s"
    assert headings == expected.split()


def test_the_table_is_set_below_itself_where_a_terminal_is_narrow():
    """Each block has the policies again; no line is wider, and no column is lost."""
    document = replayed(TRACE, *SMALL, "--policy", "predicted,least-work", "-o", "json").output
    runs = msgspec.json.decode(document, type=Results).runs
    whole = table.lines(runs, wide=True, width=None)
    for width in (60, 80, 120):
        narrow = table.lines(runs, wide=True, width=width)
        assert max(map(len, narrow)) <= width
        of_policy = [line.split()[1:] for line in narrow if line.startswith("policy")]
        headings = [cells for cells in of_policy if not cells[0][0].isdigit()]
        assert [name for line in headings for name in line] == whole[1].split()[1:]
        assert sum(line.startswith("least-work") for line in narrow) == len(headings)


def test_the_wide_table_has_more_columns():
    """Means and maxima beside the percentiles."""
    headings, row = rows(replayed(TRACE, *SMALL, "-o", "wide").output)
    assert headings[:7] == ["policy", "reqs", "mean", "p50", "p90", "p99", "max"]
    assert len(row) == 21


def test_the_document_has_everything_to_run_it_again():
    """Its field names are a promise; the numbers are those of the table."""
    words = (TRACE, *SMALL, "--seed", "7", "--rate", "5", "--slo-ttft", "1500ms", "--engine", "base_s=0.01")
    document = json.loads(replayed(*words, "-o", "json").output)
    assert list(document) == ["version", "headgate", "configuration", "notes", "runs"]
    configuration = document["configuration"]
    assert configuration["seed"] == 7
    names = ("limit", "jitter_s", "rate_per_s", "policies", "find_rate_at")
    told = {name: configuration[name] for name in names}
    assert told == {
        "limit": 60,
        "jitter_s": 0.0,
        "rate_per_s": 5.0,
        "policies": ["predicted"],
        "find_rate_at": None,
    }
    assert configuration["slo"] == {"ttft_s": 1.5, "tpot_s": None}
    assert configuration["fleet"]["groups"][0]["replicas"] == 2
    assert configuration["fleet"]["groups"][0]["engine"] == {"base_s": 0.01}
    (run,) = document["runs"]
    assert run["summary"]["arrivals_per_s"] == pytest.approx(5.0)
    assert sum(endpoint["requests"] for endpoint in run["endpoints"]) == 60
    table = rows(replayed(*words).output)[1]
    assert float(table[2]) == pytest.approx(run["summary"]["ttft_s"]["p50"], rel=0.01)


@pytest.mark.parametrize("output", ["text", "json"])
def test_equal_seeds_give_equal_bytes(output):
    """Jitter, chance of the policies, and all numbers: the same again. Another seed moves them."""
    words = (TRACE, *SMALL, "--jitter", "3s", "--policy", "predicted,least-work", "-o", output)
    first = replayed(*words, "--seed", "5").output
    assert first == replayed(*words, "--seed", "5").output
    assert rows_of(first) != rows_of(replayed(*words, "--seed", "6").output)


def rows_of(output: str) -> object:
    return json.loads(output)["runs"] if output.startswith("{") else rows(output)


def test_several_rates_are_rows_with_their_rate():
    """The same requests, faster; each policy at each rate."""
    result = replayed(TRACE, *SMALL, "--rates", "2,6.5", "--policy", "predicted,least-work")
    headings, *found = rows(result.output)
    assert headings[:2] == ["policy", "rate"]
    assert [row[:2] for row in found] == [
        ["predicted", "2.00"],
        ["least-work", "2.00"],
        ["predicted", "6.50"],
        ["least-work", "6.50"],
    ]


def test_the_highest_rate_is_found_for_each_policy():
    """At the rate of the row enough first tokens come in time; a bit above they do not."""
    words = (TRACE, *SMALL, "--slo-ttft", "2s")
    found = json.loads(replayed(*words, "--find-rate", "-o", "json").output)["runs"][0]
    rate = found["highest_rate"]["rate_per_s"]
    assert found["ttft_in_time"] >= 0.9
    assert found["summary"]["arrivals_per_s"] == pytest.approx(rate)
    tried = dict(found["highest_rate"]["tried"])
    assert tried[rate] >= 0.9
    assert min(each for each in tried if each > rate) <= rate * 1.0201
    assert all(share < 0.9 for each, share in tried.items() if each > rate)


def test_a_fleet_too_slow_for_any_rate_is_told():
    """The row is then of the lowest rate, and a note says why."""
    result = replayed(TRACE, "--limit", "3", "--replicas", "1", "--find-rate", "--slo-ttft", "1ms")
    assert "at no rate tried did 90% of the requests get their first token in time" in result.output
    assert "0.0%" in rows(result.output)[1]


def test_differences_are_told_on_request():
    """In per cent of times and points of shares, against the first policy."""
    result = replayed(TRACE, *SMALL, "--policy", "predicted,least-work", "--compare")
    assert re.search(
        r"Compared with predicted:\n  least-work  TTFT p50 [+-]\d+%, p90 .* points, hits -\d", result.output
    )


AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,480,10
2023-11-16 18:17:04.0319600,318,8
2023-11-16 18:17:09.0781490,110,27
"""


def test_a_trace_without_hashes_says_so(tmp_path):
    """Nobody shall believe that a policy finds no hits there."""
    trace = tmp_path / "azure.csv"
    trace.write_text(AZURE)
    result = replayed(str(trace), "--replicas", "2")
    assert "note: Azure's traces have no prefix hashes" in result.output
    assert "seen before" not in result.output
    assert rows(result.output)[1][:2] == ["predicted", "3"]


def test_the_grid_of_a_trace_is_spread_and_told(tmp_path):
    """By default within the grid; --jitter off keeps the bursts and says that they are there."""
    trace = tmp_path / "grid.jsonl"
    lines = [
        {"timestamp": 3000 * (n // 5), "input_length": 100, "output_length": 5, "hash_ids": [n]}
        for n in range(100)
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))
    spread = replayed(str(trace), "--replicas", "1", "--profile", "fast")
    assert "times are rounded to 3 s: each request is delayed randomly by up to that" in spread.output
    kept = replayed(str(trace), "--replicas", "1", "--profile", "fast", "--jitter", "off")
    assert "times are rounded to 3 s, which makes bursts" in kept.output


def test_what_was_chosen_for_the_trace_is_told():
    """Block size and context are the trace's where the profile's would not do."""
    output = replayed(TRACE, *SMALL).output
    assert "note: KV blocks have 512 tokens, like those of the trace" in output
    assert "tokens instead of the profile's 8,192: the longest request has" in output
    said = replayed(TRACE, *SMALL, "--engine", "block_size=16", "--engine", "max_model_len=8192").output
    assert "KV blocks" not in said
    assert "instead of the profile's" not in said


def test_requests_that_fit_into_no_context_are_refused_and_counted():
    """They are no goodput, and no time is made up for them."""
    output = replayed(TRACE, *SMALL, "--engine", "max_model_len=5000").output
    headings, row = rows(output)
    refused = int(row[headings.index("refused")])
    assert 0 < refused < 60
    assert f"note: {refused} of the requests are longer than any engine's context and are rejected" in output


def test_a_fleet_fails_by_its_schedule(tmp_path):
    """Requests of an endpoint that dies and is not retried have failed; with a retry they are served."""
    fleet = tmp_path / "fleet.yaml"
    text = "groups: [{{replicas: 2}}]\nretries: {}\nfaults: [{{kind: crash, engines: engine-1, at_s: 4s}}]\n"
    fleet.write_text(text.format(0))
    headings, row = rows(replayed(TRACE, "--limit", "60", "--fleet", str(fleet)).output)
    assert int(row[headings.index("failed")]) > 0
    fleet.write_text(text.format(2))
    run = json.loads(replayed(TRACE, "--limit", "60", "--fleet", str(fleet), "-o", "json").output)["runs"][0]
    assert run["summary"]["retried"] > 0
    requests = {endpoint["name"]: endpoint["requests"] for endpoint in run["endpoints"]}
    assert requests["engine-0"] > requests["engine-1"]


def test_a_fleet_may_prefill_and_decode_apart(tmp_path):
    """Both kinds of engines have requests in flight, and none is lost."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("groups:\n  - {name: p, role: prefill}\n  - {name: d, role: decode}\n")
    run = json.loads(replayed(TRACE, "--limit", "40", "--fleet", str(fleet), "-o", "json").output)["runs"][0]
    assert run["summary"]["served"] == 40
    held = {name: sum(windows) for name, windows in run["series"]["in_flight"].items()}
    assert held["p-0"] > 0
    assert held["d-0"] > 0


def test_a_workload_is_replayed_without_a_file():
    """With its parameters, which the document has in full."""
    words = (
        "--workload",
        "shared-prefix",
        "--set",
        "prefixes=3",
        "--set",
        "prefix-tokens=640",
        "--limit",
        "40",
    )
    result = replayed(*words, "--profile", "fast", "-o", "json")
    trace = json.loads(result.output)["configuration"]["trace"]
    assert (trace["source"], trace["format"], trace["requests"]) == ("shared-prefix", "workload", 40)
    assert trace["parameters"]["prefixes"] == 3
    assert trace["parameters"]["output_tokens"] == 1000


def test_tenants_have_rows_of_their_own():
    """What the others notice of a noisy one; together they have all requests."""
    words = ("--workload", "noisy-neighbour", "--limit", "60", "--policy", "random,predicted")
    output = replayed(*words, "--profile", "fast").output
    lines = output[output.index("tenant") :].split("\n\n")[0].splitlines()[1:]
    found = [line.split()[:3] for line in lines]
    assert [row[0] for row in found] == ["random"] * 5 + ["predicted"] * 5
    assert found[0] == ["random", "noisy", "30"]
    assert sum(int(row[2]) for row in found[:5]) == 60
    assert "tenant" not in replayed(TRACE, *SMALL).output


def test_workloads_are_listed_with_their_parameters(monkeypatch):
    """Everything that --set takes, with its default; no line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    output = replayed("--workloads").output
    assert max(map(len, output.splitlines())) <= 60
    assert "\nnoisy-neighbour: " in output
    assert re.search(r"    prefixes=150 +Beginnings to choose from", output)


def test_every_policy_that_has_a_name_serves_the_example():
    """None of them loses a request."""
    result = replayed(TRACE, *SMALL, "--policy", ",".join(NAMES))
    _, *found = rows(result.output)
    assert [row[0] for row in found] == list(NAMES)
    assert {row[1] for row in found} == {"60"}
