from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli.simulate import simulate

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulate"
TRACE = str(EXAMPLES / "trace.jsonl")
FLEET = str(EXAMPLES / "fleet.yaml")


def replayed(*words: str) -> Result:
    return CliRunner().invoke(simulate, ["trace", *words])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to replay: name a trace file or a --workload"),
        ([TRACE, "--workload", "chat"], "cannot be combined"),
        ([TRACE, "--set", "turns=3"], "--set is for parameters of a --workload"),
        (["--workload", "chats"], "--workload: unknown workload 'chats'; did you mean chat?"),
        (["--workload", "chat", "--set", "turn=3"], "--set turn: unknown parameter; did you"),
        (["--workload", "chat", "--set", "turns=no"], "--set turns: 'no' is not a number from 1 to 1000"),
        (["--workload", "chat", "--set", "turns"], "--set turns: write NAME=NUMBER"),
        ([TRACE, "--policy", "predictd"], "unknown policy 'predictd'; did you mean predicted?"),
        ([TRACE, "--policy", "random,"], "unknown policy ''; there are predicted, "),
        ([TRACE, "--fleet", FLEET, "--replicas", "3"], "--replicas: already set by the file of --fleet"),
        ([TRACE, "--rate", "2", "--find-rate"], "--rate and --find-rate cannot be combined"),
        ([TRACE, "--rates", "2,x"], "'2,x' is not numbers from 0.001 to 1,000,000 such as 4,6,8"),
        ([TRACE, "--rate", "nan"], "'nan' is not a number from 0.001 to 1,000,000"),
        ([TRACE, "--rate-scale", "2,3"], "'2,3' is more than one number"),
        ([TRACE, "--replicas", "5000"], "--replicas: there are more than 1000 replicas in total"),
        ([TRACE, "--plots", "/dev/null"], "cannot write plots to /dev/null: File exists"),
        ([TRACE, "--slo-ttft", "2 seconds"], "'2 seconds' is not a time such as 2s, 500ms or 1m30s"),
        ([TRACE, "--jitter", "often"], "--jitter: 'often' is not auto, off, or a time such as 3s"),
        ([TRACE, "--jitter", "-3s"], "--jitter: '-3s' is not auto, off, or a time such as 3s"),
        ([TRACE, "--policy-config", FLEET], "this is not a scheduling configuration"),
        ([TRACE, "--profile", "8b-h10"], "--profile: '8b-h10' is not a profile; did you mean 8b-h100?"),
        ([TRACE, "--engine", "kv_block=3"], "--engine kv_block: 'kv_block' is not a constant of an engine"),
        ([TRACE, "--engine", "kv_blocks=0.5"], "--engine kv_blocks: 0.5 is not a whole number"),
        ([TRACE, "--engine", "kv_blocks=many"], "--engine: 'kv_blocks=many' is not NAME=NUMBER, such as"),
        ([TRACE, "--engine", "kv_blocks=3"], "--engine: kv_blocks: 3 blocks of 512 tokens hold less"),
        (["nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
        ([FLEET], "the format of its first line is not recognized; set it with --format"),
        ([FLEET, "--format", "azure"], "fleet.yaml:1: the heading"),
        ([TRACE, "--duration", "0"], "no request arrives within --duration"),
        ([TRACE, "--block-tokens", "256"], "hash_ids: 12 hashes for 5861 tokens, which are 23 blocks of 256"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_what_would_be_right(words, told):
    """No traceback, and nothing is replayed."""
    result = replayed(*words)
    assert result.exit_code in (1, 2)
    assert told in result.output
    assert isinstance(result.exception, SystemExit)


def test_all_mistakes_of_a_fleet_file_are_told_with_their_places(tmp_path):
    """Unknown fields, wrong types, wrong names: each with its line, at once."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "groups:\n"
        "  - name: a\n"
        "    replicas: many\n"
        "    profil: 8b-h100\n"
        "    engine: {kv_blocks: lots}\n"
        "  - replicas: 0\n"
        "slo:\n"
        "  ttft: soon\n"
        "scrape: -1\n"
    )
    output = replayed(TRACE, "--fleet", str(fleet)).output
    for told in (
        ':3:15: error: groups[0].replicas: "many" is not a whole number from 1 to 1000',
        ":4:5: error: groups[0].profil: unknown field",
        "fix: did you mean profile?",
        ':5:13: error: groups[0].engine: {"kv_blocks":"lots"} is not a mapping from names to numbers',
        ":6:15: error: groups[1].replicas: 0 is not a whole number from 1 to 1000",
        ':8:9: error: slo.ttft: "soon" is not a time such as 2s or 1m30s',
        ":9:9: error: scrape: -1 is not a time such as 2s or 1m30s",
    ):
        assert told in output


def test_mistakes_between_the_fields_of_a_fleet_are_told_too(tmp_path):
    """Names that clash, profiles and constants that do not exist, a cache that is sized twice."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "groups:\n  - {profile: 8b-h10}\n  - {engine: {base: 1, kv_blocks: 3}, cache_tokens: 7}\n"
    )
    output = replayed(TRACE, "--fleet", str(fleet)).output
    for told in (
        ":2:15: error: groups[0].profile: '8b-h10' is not a profile",
        "fix: did you mean 8b-h100?",
        "error: groups[1].name: another group is also named engine",
        "error: groups[1].engine.base: 'base' is not a constant of an engine",
        "error: groups[1].cache_tokens: the size of the cache is also set by kv_blocks",
    ):
        assert told in output


def test_mistakes_in_what_goes_wrong_are_told_too(tmp_path):
    """Kinds, times, endpoints that there are not, and roles that do not go together."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "groups:\n"
        "  - {name: a, role: prefill}\n"
        "faults:\n"
        "  - {kind: crash, engines: b-*, at_s: 3s}\n"
        "  - {kind: slow, at_s: -3}\n"
    )
    output = replayed(TRACE, "--fleet", str(fleet)).output
    for told in (
        ":1:1: error: groups: engines that only prefill need others that decode",
        ":4:28: error: faults[0].engines: no endpoint is named 'b-*': there are a-0",
        ":5:24: error: faults[1].at_s: must be at least 0, got -3.0",
        "error: faults[1].factor: say how much slower: 2 takes twice as long",
    ):
        assert told in output
    fleet.write_text("groups: [{}]\nfaults: [{kind: crsh, at_s: soon}]\n")
    output = replayed(TRACE, "--fleet", str(fleet)).output
    assert "fix: did you mean crash?" in output
    assert 'faults[0].at_s: "soon" is not a time such as 2s or 1m30s' in output


@pytest.mark.parametrize("text", ["", "[]", "groups: []", "slo: {}", "a: &a [*a]", "groups: [1]"])
def test_a_file_that_is_no_fleet_is_told_as_that(tmp_path, text):
    """Whatever it is instead."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(text)
    result = replayed(TRACE, "--fleet", str(fleet))
    assert (result.exit_code, "error: " in result.output) == (1, True)
    assert isinstance(result.exception, SystemExit)
