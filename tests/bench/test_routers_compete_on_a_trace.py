"""The contest of routers replays a trace through every policy, and repeats itself."""

import json
import random

import pytest
from click.testing import CliRunner

import routing
from contest.cache import BlockCache
from contest.capacity import highest_rate
from contest.policies import POLICIES
from contest.replay import Replay
from contest.replicas import Fleet
from contest.rows import ROWS
from contest.standings import standings
from contest.stepped import Stepped
from headgate.traffic.traces import TimedRequest

SMALL = Fleet(replicas=3, prefill_tokens_per_s=16_000.0, cache_blocks=400)


def conversations(count: int, seed: int = 5) -> list[dict]:
    """Turns of conversations that come back: the lines of a trace in Mooncake's format."""
    rng = random.Random(seed)
    open_prompts = {number: [0, 1000 * number + 1] for number in range(12)}
    lines = []
    for turn in range(count):
        number = rng.randrange(12)
        blocks = open_prompts[number]
        blocks.extend(blocks[-1] + 1 + at for at in range(rng.randint(1, 9)))
        lines.append(
            {
                "timestamp": turn * 100,
                "input_length": 512 * len(blocks) - 100,
                "output_length": rng.randint(1, 400),
                "hash_ids": list(blocks),
            }
        )
        if len(blocks) > 60:
            open_prompts[number] = [0, 1_000_000 + 1000 * turn]
    return lines


@pytest.fixture
def folder(tmp_path):
    lines = "\n".join(json.dumps(line) for line in conversations(250))
    (tmp_path / "mooncake_made-up.jsonl").write_text(lines)
    return tmp_path


def test_every_policy_is_in_the_table(folder):
    """One row each, with a rate, a hit rate, percentiles, and the cost of a decision."""
    options = ["--traces", str(folder), "--trace", "made-up", "--cache", "400", "--replicas", "3"]
    options += ["--rows", "plain"]
    ran = CliRunner(catch_exceptions=False).invoke(
        routing.main, [*options, "--steps", "3", "--output", "json"]
    )
    scores = json.loads(ran.stdout)["scores"]
    assert [score["policy"] for score in scores] == list(POLICIES)
    by_policy = {score["policy"]: score for score in scores}
    assert all(0.0 <= score["hit_rate"] <= 1.0 and score["decision_us"] > 0 for score in scores)
    assert by_policy["headgate"]["hit_rate"] > by_policy["random"]["hit_rate"]
    assert by_policy["headgate"]["ttft_s"]["p90"] < by_policy["random"]["ttft_s"]["p90"]
    shown = CliRunner(catch_exceptions=False).invoke(
        routing.main, [*options, "--steps", "1", "--only", "headgate,random"]
    )
    assert "| headgate" in shown.stdout
    assert "made-up, 400: most req/s" in shown.stdout


def test_each_row_is_a_cell_and_the_sum_says_who_is_first(folder):
    """By default all rows; the size of caches makes no second cell where nothing is found in them. Distances
    are to the best gateway, as oracles know what no gateway knows."""
    options = ["--traces", str(folder), "--trace", "made-up", "--cache", "400,200", "--replicas", "4"]
    options += ["--steps", "2", "--only", "headgate,random,oracle"]
    ran = CliRunner(catch_exceptions=False).invoke(routing.main, [*options, "--output", "json"])
    report = json.loads(ran.stdout)
    cells = [score["cell"] for score in report["scores"] if score["policy"] == "headgate"]
    assert cells[:2] == ["made-up, 400", "made-up, 200"]
    assert cells[2:] == [
        *(f"{row}: made-up, {size}" for row in list(ROWS)[1:-1] for size in (400, 200)),
        "no-prefix: made-up, 400",
    ]
    assert [standing["cell"] for standing in report["standings"]][-1] == "sum"
    assert {standing["best"] for standing in report["standings"]} <= {"headgate", "random"}
    shown = CliRunner(catch_exceptions=False).invoke(
        routing.main, [*options, "--rows", "mixed-speeds,no-prefix"]
    )
    assert "| mixed-speeds: made-up, 200" in shown.stdout
    assert "shortest-first" not in shown.stdout
    assert "| sum" in shown.stdout


def test_distances_are_to_the_best_gateway():
    """In each cell that any gateway keeps up with, and in the sum; a tie is ours."""
    rates = {
        "headgate": {"a": 8.0, "b": 5.0, "c": 0.0},
        "other": {"a": 10.0, "b": 5.0, "c": 0.0},
        "slow": {"a": 1.0, "b": 0.0, "c": 0.0},
        "oracle": {"a": 20.0, "b": 20.0, "c": 20.0},
    }
    told = [
        (each.cell, each.best, each.best_rate, each.second, each.our_rate, each.our_distance)
        for each in standings(rates, "headgate", oracles=["oracle"])
    ]
    assert told == [
        ("a", "other", 10.0, "headgate", 8.0, -0.2),
        ("b", "headgate", 5.0, "other", 5.0, 0.0),
        ("sum", "other", 15.0, "headgate", 13.0, -0.1333),
    ]
    assert standings({"other": {"a": 1.0}}, "headgate") == []


def test_unknown_names_are_refused(folder):
    """With the names that there are; and a trace that is not there with its path."""
    ran = CliRunner().invoke(routing.main, ["--traces", str(folder), "--only", "magic"])
    assert ran.exit_code == 2
    assert "no policy magic; there are headgate" in ran.output
    ran = CliRunner().invoke(routing.main, ["--traces", str(folder), "--rows", "odd"])
    assert "no row odd; there are plain, mixed-speeds" in ran.output
    ran = CliRunner().invoke(routing.main, ["--traces", str(folder), "--trace", "lost"])
    assert "mooncake_lost.jsonl" in ran.output


def test_the_contest_on_engines_that_step(folder):
    """The same table for real batches: who follows the caches has more hits there too."""
    requests = routing.read(folder / "mooncake_made-up.jsonl", 120, seed=1)
    results = {
        policy: Stepped(SMALL, POLICIES[policy], seed=7).run(requests, 1.0)
        for policy in ("headgate", "llm-d 3:2:2 precise", "random")
    }
    assert all(len(result.ttfts_s) == 120 for result in results.values())
    assert results["headgate"].hit_rate > results["random"].hit_rate
    assert results["llm-d 3:2:2 precise"].hit_rate > results["random"].hit_rate
    again = Stepped(SMALL, POLICIES["headgate"], seed=7).run(requests, 1.0)
    assert again.ttfts_s == results["headgate"].ttfts_s
    assert Stepped(SMALL, POLICIES["headgate"], seed=7).keeps(requests, 0.5, 60.0, 0.9)
    assert not Stepped(SMALL, POLICIES["headgate"], seed=7).keeps(requests, 1.0, 0.001, 0.9)


@pytest.mark.parametrize("policy", ["headgate", "DualMap", "random"])
def test_equal_seeds_give_equal_runs(policy, folder):
    """To the last digit."""
    requests = routing.read(folder / "mooncake_made-up.jsonl", None, seed=1)
    runs = [Replay(SMALL, POLICIES[policy], seed=7).run(requests, 1.0) for _ in range(2)]
    assert runs[0].ttfts_s == runs[1].ttfts_s
    assert runs[0].hit_rate == runs[1].hit_rate


def test_giving_up_early_judges_alike(folder):
    """A replay that ends as soon as it has missed enough comes to the same as one that is played out."""
    requests = routing.read(folder / "mooncake_made-up.jsonl", None, seed=1)
    for speed in (0.2, 1.0, 3.0):
        whole = Replay(SMALL, POLICIES["headgate"], seed=7).run(requests, speed)
        kept = Replay(SMALL, POLICIES["headgate"], seed=7).keeps(requests, speed, 0.5, 0.9)
        assert kept == (whole.within(0.5) >= 0.9)


def test_the_ideal_cache_forgets_nothing():
    """Of three prompts the second has two of its three blocks, the third nothing."""
    requests = [
        TimedRequest(at_s=0.0, prompt_tokens=1024, output_tokens=1, prefix=prefix, block_tokens=512)
        for prefix in ((1, 2), (1, 2, 3), (7, 2))
    ]
    assert routing.ideal_hit_rate(requests) == pytest.approx(2 / 7)


def test_a_cache_gives_up_tails_first():
    """Of the least recently used prompt, the end."""
    cache = BlockCache(4)
    cache.use((1, 2, 3))
    cache.use((1, 8, 9))
    assert (cache.matched((1, 2, 3)), cache.matched((1, 8, 9)), len(cache)) == (2, 3, 4)


def test_the_highest_rate_is_found():
    """Within the steps that are given, never above it."""
    found = highest_rate(lambda rate: rate <= 7.0, 0.5, 20.0, 12)
    assert 6.9 < found <= 7.0
    assert highest_rate(lambda rate: False, 0.5, 20.0, 12) == 0.5


def test_rates_are_means_over_seeds(folder):
    """Of several seeds each has a bisection of its own; one seed gives what it gives among others."""
    options = ["--traces", str(folder), "--trace", "made-up", "--cache", "400", "--replicas", "3"]
    options += ["--rows", "plain", "--only", "headgate", "--steps", "4", "--output", "json"]

    def score(seeds: str) -> dict:
        ran = CliRunner(catch_exceptions=False).invoke(routing.main, [*options, "--seeds", seeds])
        return json.loads(ran.stdout)["scores"][0]

    both = score("1,2")
    assert both["highest_rates"] == [score(seed)["highest_rate"] for seed in ("1", "2")]
    assert both["highest_rate"] == pytest.approx(sum(both["highest_rates"]) / 2, abs=0.01)
