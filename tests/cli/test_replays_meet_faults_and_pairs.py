import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate

TRACE = str(Path(__file__).parents[2] / "examples" / "simulate" / "trace.jsonl")


@pytest.fixture
def replay(tmp_path):
    """Replays the example's trace on a fleet that is given as YAML."""

    def run(fleet: str, *words: str):
        file = tmp_path / "fleet.yaml"
        file.write_text(fleet)
        return CliRunner().invoke(simulate, ["trace", TRACE, "--fleet", str(file), *words])

    return run


def summary(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["runs"][0]["summary"]


GROUP = "{name: e, replicas: 2, profile: fast}"


def test_requests_fail_where_all_endpoints_are_down(replay):
    """From a fault of the file."""
    fleet = f"groups: [{GROUP}]\nfaults: [{{kind: crash, at_s: 0}}]"
    figures = summary(replay(fleet, "--policy", "random", "--output", "json"))
    assert figures["failed"] + figures["refused"] == figures["requests"]
    fleet = f"groups: [{GROUP}]\nfaults: [{{kind: crash, at_s: 0, engines: e-1}}]"
    figures = summary(replay(fleet, "--policy", "random", "--output", "json"))
    assert figures["served"] == figures["requests"]
    assert figures["retried"] > 0


def test_prefill_and_decode_may_be_apart(replay):
    """All is served, and slower where the link is slow."""
    groups = "groups: [{name: p, profile: fast, role: prefill}, {name: d, profile: fast, role: decode}]"
    slow = summary(replay(groups + "\nlink_bytes_per_s: 1e9", "--policy", "random", "--output", "json"))
    fast = summary(replay(groups, "--policy", "random", "--output", "json"))
    assert slow["served"] == fast["served"] == fast["requests"]
    assert slow["ttft_s"]["p50"] > 10 * fast["ttft_s"]["p50"]


def test_mistakes_of_faults_and_roles_are_told_with_their_places(replay):
    """By the fields of the schedule."""
    result = replay(
        "groups: [{name: p, role: prefill}]\n"
        "faults:\n- {kind: slow, at_s: 1}\n- {kind: stall, at_s: 1}\n- {kind: latency, at_s: 1, delay_s: 0}\n"
    )
    assert result.exit_code != 0
    for told in (
        "engines that only prefill need others that decode",
        "faults[0].factor",
        "faults[1].duration_s",
        "faults[2].delay_s",
    ):
        assert told in result.output
    assert "did you mean crash?" in replay(f"groups: [{GROUP}]\nfaults: [{{kind: crahs, at_s: 1}}]").output


def test_a_fault_of_endpoints_that_there_are_not_is_told(replay):
    """It would do nothing, and nobody would know; a link without a speed is no link."""
    fleet = f"groups: [{GROUP}]\nfaults: [{{kind: crash, at_s: 1s, engines: b-*}}]"
    assert "faults[0].engines: no endpoint is named 'b-*': there are e-0, e-1" in replay(fleet).output
    output = replay(f"groups: [{GROUP}]\nlink_bytes_per_s: 0").output
    assert "link_bytes_per_s: 0 is not a number of at least 1" in output


def test_the_heading_tells_what_engines_are_for(replay):
    """Where the phases are apart."""
    groups = "groups: [{name: p, profile: fast, role: prefill}, {name: d, profile: fast, role: decode}]"
    assert "1 x fast (prefill), 1 x fast (decode); objective" in replay(groups, "--limit", "5").output


def test_the_health_of_endpoints_is_judged_as_the_file_says(replay):
    """Failures that eject, and retries that are granted, as the gateway's settings of the same names."""
    faults = "faults: [{kind: error, at_s: 0, status: 503}]"
    health = "ejection: {failures: 2, base: 10s}\nretry_budget: {share: 0, floor_per_s: 0}"
    result = replay(f"groups: [{GROUP}]\n{faults}\n{health}", "--policy", "random", "--output", "json")
    (run,) = json.loads(result.stdout)["runs"]
    assert run["summary"]["failed"] == run["summary"]["requests"] == run["retries_denied"]
    assert all(endpoint["ejections"] > 0 for endpoint in run["endpoints"])
    wrong = replay(f"groups: [{GROUP}]\nejection: {{base: 10m, hang: soon}}\nretry_budget: {{window: 0}}")
    assert wrong.exit_code != 0
    assert "ejection.hang" in wrong.output
    assert "retry_budget.window" in wrong.output
    assert "ejection.longest" in replay(f"groups: [{GROUP}]\nejection: {{base: 10m}}").output


def test_turns_wait_for_answers_where_the_loop_is_closed(replay):
    """Slow engines are asked later then; a trace without conversations says that nothing changed."""
    words = ("--policy", "random", "--output", "json")
    slow = "groups: [{name: e, replicas: 1, profile: 8b-h100}]"
    opened, closed = (json.loads(replay(slow, *words, *more).stdout) for more in ((), ("--closed-loop",)))
    assert closed["configuration"]["closed_loop"]
    rates = [each["runs"][0]["summary"]["arrivals_per_s"] for each in (opened, closed)]
    assert rates[1] < 0.7 * rates[0]
    assert "186 of the requests are sent after the previous response" in closed["notes"][0]
    burst = ["trace", "--workload", "burst", "--replicas", "2", "--closed-loop", "--limit", "10"]
    assert "--closed-loop has no effect" in CliRunner().invoke(simulate, burst).output


def test_engines_may_start_when_requests_wait(replay):
    """From none that runs: the first tokens come later by the time that the model takes to load."""
    start = "{model_bytes: 16e9, bytes_per_s: 2e9, constant: 2s, running: 0, stop_idle: 1m}"
    group = f"{{name: e, replicas: 2, profile: fast, cold_start: {start}}}"
    result = replay(f"groups: [{group}]\nqueue: {{no_endpoint_ttl: 30s}}", "--policy", "random", "-o", "json")
    figures = summary(result)
    assert figures["served"] == figures["requests"]
    assert figures["ttft_s"]["max"] >= 10


def test_mistakes_of_cold_starts_are_told_with_their_places(replay):
    """Also that nobody would wait for them."""
    start = "{running: 3, stop_idle: 0}"
    result = replay(f"groups: [{{name: e, replicas: 2, cold_start: {start}}}]")
    assert result.exit_code != 0
    for told in (
        "groups[0].cold_start.running: must be 0 to 2, the engines of the group, got 3",
        "groups[0].cold_start.stop_idle: must be more than 0 seconds, got 0",
        "groups[0].cold_start: engines start when requests are queued; give the fleet a `queue`",
    ):
        assert told in result.output
