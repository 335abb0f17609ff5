"""The contest of autoscalers replays a trace with every one of them, and repeats itself."""

import json
import random

import pytest
from click.testing import CliRunner

import autoscaling
from autoscaling_contest.contestants import NAMES, hpa
from autoscaling_contest.standings import Result, hours_at, standings


@pytest.fixture
def folder(tmp_path):
    """A trace that rises and falls within four minutes, as Azure's."""
    rng = random.Random(3)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    at_s = 0.0
    while at_s < 240:
        rate = 2.0 if at_s < 60 or at_s > 180 else 8.0
        at_s += rng.expovariate(rate)
        minute, second = divmod(at_s, 60)
        lines.append(
            f"2023-11-16 18:{int(minute):02d}:{second:010.7f},{rng.randint(100, 2000)},{rng.randint(5, 300)}"
        )
    (tmp_path / "azure_2023_conv.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder, *options):
    given = ["--traces", str(folder), "--trace", "azure-conv", "--quick", "--output", "json", *options]
    ran = CliRunner(catch_exceptions=False).invoke(autoscaling.main, given)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def test_every_autoscaler_is_in_the_table(folder):
    """One result each, within its limits, and the same in a second run."""
    results = run(folder, "--only", ",".join(["headgate", *NAMES]))["results"]
    assert [result["autoscaler"] for result in results] == ["headgate", *NAMES]
    for result in results:
        assert 0 <= result["worst_minute"] <= result["attainment"] <= 1
        assert result["attainment"] <= min(result["ttft_attainment"], result["tpot_attainment"])
        assert result["gpu_hours"] > 0.05
    ours = next(result for result in results if result["autoscaler"] == "headgate")
    assert ours["attainment"] > 0.8
    again = run(folder, "--only", "headgate")
    assert again["results"] == [ours]


def test_knowing_the_requests_costs_least(folder):
    """The clairvoyant plan has nearly all requests in time, and those as good need more GPU hours."""
    results = run(folder, "--only", "headgate,clairvoyant,hpa utilisation")["results"]
    plan = next(result for result in results if result["autoscaler"] == "clairvoyant 0.01")
    assert plan["attainment"] > 0.97
    for other in results:
        if not other["autoscaler"].startswith("clairvoyant") and other["attainment"] >= plan["attainment"]:
            assert other["gpu_hours"] > plan["gpu_hours"]


def test_an_unknown_name_is_refused(folder):
    """With the names that there are."""
    ran = CliRunner().invoke(autoscaling.main, ["--traces", str(folder), "--only", "hpa"])
    assert ran.exit_code == 2
    assert "--only: no autoscaler hpa; there are headgate, hpa utilisation," in ran.output


def test_better_in_both_is_better():
    """Standings name those with better attainment and fewer hours, and interpolate the bound."""

    def result(name, attainment, hours):
        return Result(
            trace="t",
            cold_start_s=30.0,
            autoscaler=name,
            attainment=attainment,
            ttft_attainment=attainment,
            tpot_attainment=1.0,
            gpu_hours=hours,
            reversals=0,
            worst_minute=0.5,
        )

    bounds = [result("clairvoyant 0", 1.0, 10.0), result("clairvoyant 0.1", 0.9, 6.0)]
    others = [result("cheap", 0.9, 8.0), result("good", 0.99, 20.0), result("both", 0.97, 9.0)]
    (standing,) = standings([result("headgate", 0.95, 9.6), *others, *bounds])
    assert standing.better == ["both"]
    assert hours_at(0.95, bounds) == pytest.approx(8.0)
    assert standing.of_bound == pytest.approx(1.2)
    assert hours_at(0.5, bounds) == 6.0
    assert hours_at(0.5, []) is None


@pytest.mark.parametrize(
    ("values", "unready", "target", "wanted"),
    [
        ([10.0, 10.0], 0, 5.0, 4),
        ([5.4, 5.4], 0, 5.0, 2),
        ([1.0, 1.0, 1.0, 1.0], 0, 5.0, 1),
        ([10.0, 10.0], 2, 5.0, 4),
        ([7.0, 7.0], 2, 5.0, 4),
        ([], 3, 5.0, 3),
    ],
)
def test_hpa_counts_unready_pods_as_idle(values, unready, target, wanted):
    """Cases of its documentation: in proportion, with a tolerance, and careful with Pods that start."""
    assert hpa.by_ratio(values, unready, target) == wanted
