"""The contest of planners replays a trace with every one of them, and compares them at equal attainment."""

import json
import random

import pytest
from click.testing import CliRunner

import planning
from headgate.simulator.autoscaling import Work
from headgate.simulator.fleet import Slo
from planning_contest import contest, saturation
from planning_contest.hardware import VARIANTS
from planning_contest.model_fleet import Model
from planning_contest.planners import Headgate, Reference, begins_with
from planning_contest.running import Decision, replay, setting_of
from planning_contest.saturation import Supply
from planning_contest.standings import Result, comparisons, frontier, shown, summary, verdicts

NAMES = [each.name for each in VARIANTS]


def works(rate_per_s, seconds, *, begins_s=0.0, prompt=800, response=150, seed=1):
    """Poisson arrivals."""
    rng, at_s, found = random.Random(seed), begins_s, []
    while (at_s := at_s + rng.expovariate(rate_per_s)) < begins_s + seconds:
        found.append(Work(len(found), at_s, prompt, prompt, response))
    return found


def setting(*models, capacity=None):
    return setting_of(models, VARIANTS, 30.0, capacity)


@pytest.fixture
def folder(tmp_path):
    """A minute and a half of a trace, as Azure's."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for each in works(5.0, 90):
        minute, second = divmod(each.at_s, 60)
        lines.append(f"2023-11-16 18:{int(minute):02d}:{second:010.7f},{each.prompt_tokens},150")
    (tmp_path / "azure_2023_conv.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder, *options):
    given = ["--only", "traces", "--traces", str(folder), "--trace", "azure-conv", "--quick", *options]
    ran = CliRunner(catch_exceptions=False).invoke(planning.main, given)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_every_planner_is_compared(folder):
    """One result each, within its limits, and the same in a second run but for the CPU time."""
    found = json.loads(run(folder, "--output", "json"))
    results = found["traces"]
    assert [each["planner"] for each in results] == list(contest.planners())
    for each in results:
        assert 0 <= each["worst_minute"] <= each["attainment"] <= 1
        assert each["attainment"] <= min(each["ttft_attainment"], each["tpot_attainment"])
        assert each["dollars"] > 0
    others = [each for each in results if not each["planner"].startswith("headgate")]
    assert len(found["verdicts"]) == len(found["comparisons"]) == len(others)
    again = json.loads(run(folder, "--output", "json", "--planner", "headgate"))["traces"]
    assert {**again[0], "plan_ms": 0} == {**results[0], "plan_ms": 0}


def test_the_table_has_the_best_of_single_variants(folder):
    """And a line about who is cheaper."""
    table, _, rest = run(folder).partition("Where both keep the objective, ours is")
    assert table.count("alone (planned)") == table.count("alone (reference)") == 1
    assert "At any attainment, others cost" in rest


def test_models_share_accelerators_by_priority(folder):
    """Of two with the same trace, the more important one attains more, with planners that know limits."""
    options = ["--trace", "azure-conv,azure-conv", "--limits", "H100=4,A100=0,L40S=1", "--output", "json"]
    results = json.loads(run(folder, *options))["traces"]
    assert [each["planner"] for each in results[::2]] == list(contest.KNOWING_LIMITS)
    high, low = results[:2]
    assert high["trace"] == "azure-conv x1, priority 1"
    assert high["attainment"] > low["attainment"]


def test_an_unknown_planner_is_refused(folder):
    """With the names that there are."""
    given = ["--only", "traces", "--traces", str(folder), "--planner", "hpa"]
    ran = CliRunner().invoke(planning.main, given)
    assert ran.exit_code == 2
    assert "--planner: no hpa; there are headgate, " in ran.output


class Fixed:
    """Wants the same all the time."""

    def __init__(self, replicas, weights=None):
        self.plan_s = []
        self._decision = Decision(replicas, weights or {})

    def look(self, now, fleets):
        return self._decision


def test_replicas_start_and_cost_until_the_end():
    """Those that are wanted from the beginning serve after their start; the first tenth does not count."""
    model = Model("m", works(2.0, 60), Slo(ttft_s=2.0, tpot_s=0.1))
    outcomes, fleets = replay(setting(model), Fixed({("m", "H100"): 2}), {})
    first_s = min(fleets["m"].ledger.first_s)
    assert first_s > 30
    ends_s = model.works[-1].at_s
    assert outcomes["m"].dollars == pytest.approx(2 * 0.9 * ends_s / 3600, rel=0.05)
    assert outcomes["m"].reversals == 0


def test_requests_are_spread_by_weights():
    """A variant of weight 0 gets none, although it is idle."""
    model = Model("m", works(2.0, 60), Slo(ttft_s=2.0, tpot_s=0.1))
    begins = {("m", "H100"): 1, ("m", "L40S"): 1}
    weights = {("m", "H100"): 1.0, ("m", "L40S"): 0.0}
    _, fleets = replay(setting(model), Fixed(begins, weights), begins)
    busy = {name: sum(each.busy_s for each in own.ready) for name, own in fleets["m"].fleets.items()}
    assert busy["H100"] > 0
    assert busy["L40S"] == 0


def test_limits_hold_and_priority_comes_first():
    """Of four accelerators that two models want three of each, the more important model has three."""
    models = [
        Model(name, works(2.0, 60), Slo(ttft_s=2.0, tpot_s=0.1), priority)
        for name, priority in (("low", 2), ("high", 1))
    ]
    wanted = {("low", "H100"): 3, ("high", "H100"): 3}
    _, fleets = replay(setting(*models, capacity={"H100": 4}), Fixed(wanted), {})
    assert {name: own.current["H100"] for name, own in fleets.items()} == {"low": 1, "high": 3}


def test_ours_follows_a_step_within_seconds():
    """Four times the load: more replicas are wanted at once, not with the next minute's plan."""
    calm, busy = works(3.0, 300), works(12.0, 120, begins_s=300.0, seed=2)
    all_of_them = [each._replace(number=number) for number, each in enumerate([*calm, *busy])]
    model = Model("m", all_of_them, Slo(ttft_s=2.0, tpot_s=0.1))
    own = setting(model)
    wanted_at = {}

    class Watched(Headgate):
        def look(self, now, fleets):
            found = super().look(now, fleets)
            if found is not None:
                dollars = {each.name: each.cost for each in VARIANTS}
                wanted_at[now] = sum(dollars[name] * n for (_, name), n in found.replicas.items())
            return found

    replay(own, Watched(own), begins_with(own))
    before = max(cost for at, cost in wanted_at.items() if 200 <= at <= 300)
    assert any(cost > before for at, cost in wanted_at.items() if 300 < at < 315)


def test_the_reference_pays_for_each_variant():
    """Each of its objects is planned for the whole load, so that three cost more than any one alone."""
    model = Model("m", works(8.0, 240), Slo(ttft_s=2.0, tpot_s=0.1))
    own = setting(model)

    def dollars(only):
        return replay(own, Reference(own, only), begins_with(own, only))[0]["m"].dollars

    assert dollars(None) > max(dollars([name]) for name in NAMES)


CHEAP, EXPENSIVE = Supply("cheap", 5.0, 10_000.0, 2), Supply("exp", 15.0, 20_000.0, 1)


def test_saturation_scales_by_cost():
    """The examples that its project publishes."""
    assert saturation.by_cost([CHEAP, EXPENSIVE], 5000) == {"cheap": 3, "exp": 1}
    assert saturation.by_cost([CHEAP._replace(replicas=1), EXPENSIVE], 25_000) == {"cheap": 4, "exp": 1}
    down = [EXPENSIVE._replace(capacity=15_000.0, replicas=2), CHEAP._replace(replicas=3)]
    assert saturation.down(down, 15_000) == {"exp": 1, "cheap": 3}
    assert saturation.down([EXPENSIVE, CHEAP._replace(replicas=1)], 30_000) == {"exp": 0, "cheap": 1}
    three = [
        Supply("exp", 15.0, 20_000.0, 2),
        Supply("mid", 10.0, 15_000.0, 2),
        Supply("cheap", 5.0, 10_000.0, 2),
    ]
    assert saturation.down(three, 50_000) == {"exp": 0, "mid": 2, "cheap": 1}


@pytest.mark.parametrize(
    ("required", "weights", "capacity", "left", "more"),
    [
        ({"a": 50_000, "b": 10_000}, {}, 15_000, 4, {"a": 3, "b": 1}),
        ({"a": 50_000, "b": 30_000, "c": 10_000}, {}, 15_000, 6, {"a": 3, "b": 2, "c": 1}),
        ({"a": 20_000, "b": 20_000}, {}, 10_000, 4, {"a": 2, "b": 2}),
        ({"a": 50_000}, {}, 15_000, 2, {"a": 2}),
        ({"a": 20_000, "b": 20_000}, {"b": 5}, 10_000, 2, {"b": 2}),
    ],
)
def test_saturation_shares_by_score(required, weights, capacity, left, more):
    """The examples that its project publishes, with two accelerators per replica counted as one."""
    supplies = {model: [Supply("v", 1.0, float(capacity), 0)] for model in required}
    found = saturation.by_score(
        supplies, required, {model: weights.get(model, 1) for model in required}, {"v": left}
    )
    assert {model: number for (model, _), number in found.items()} == more


def result(planner, attainment, dollars):
    return Result(
        trace="t",
        planner=planner,
        attainment=attainment,
        ttft_attainment=attainment,
        tpot_attainment=1.0,
        dollars=dollars,
        reversals=0,
        worst_minute=0.5,
        plans=1,
        plan_ms=1.0,
    )


def test_cheaper_at_equal_attainment_is_told():
    """Each is compared with the cheapest of ours that attains as much."""
    ours = [
        result("headgate", 0.97, 10.0),
        result("headgate 60 s", 0.9, 6.0),
        result("headgate TTFT x0.7", 0.99, 14.0),
    ]
    good, cheap = result("reference", 0.98, 20.0), result("v2 saturation", 0.85, 5.0)
    found = {each.planner: each for each in verdicts([*ours, good, cheap])}
    assert (found["reference"].ours, found["reference"].is_cheaper) == ("headgate TTFT x0.7", False)
    assert (found["v2 saturation"].ours, found["v2 saturation"].is_cheaper) == ("headgate 60 s", True)
    assert frontier(verdicts([*ours, good])).endswith("with the same attainment or more: 1 results.")
    assert "but for 1 of 2: v2 saturation on t." in frontier(list(found.values()))
    unreached = verdicts([ours[0], result("reference", 1.0, 20.0)])
    assert unreached[0].is_cheaper


def test_costs_are_compared_where_both_keep_the_objective():
    """For 95 % of requests; who attains less may cost less."""
    ours = result("headgate", 0.97, 10.0)
    others = [
        result("reference", 0.999, 12.5),
        result("reference greedy", 0.95, 10.0),
        result("H alone (planned)", 0.96, 8.0),
        result("v2 saturation", 0.949, 5.0),
    ]
    found = comparisons([ours, *others])
    assert [each.verdict for each in found] == [
        "ok, 20.0% cheaper",
        "ok, same cost",
        "dearer by 25.0%",
        "it misses the objective",
    ]
    assert [each.is_dearer for each in found] == [False, False, True, False]
    told = summary(found)
    assert "more expensive in 1 of 3 comparisons (1 others miss the objective): H alone" in told
    late = comparisons([result("headgate", 0.94, 1.0), *others[:1]])
    assert (late[0].verdict, late[0].is_dearer) == ("ours misses the objective", True)
    assert "never more expensive: 0 of 2 comparisons" in summary(found[:2])


def test_the_best_of_single_variants_keeps_the_objective():
    """The cheapest that keeps the objective; without any, the one that attains most."""
    ours = result("headgate", 0.97, 10.0)
    singles = [
        result(f"{name} alone (planned)", *rest) for name, *rest in (("H", 0.98, 12.0), ("L", 0.9, 9.0))
    ]
    assert [each.planner for each in shown([ours, *singles])] == ["headgate", "H alone (planned)"]
    assert [each.planner for each in shown([ours, *singles[1:]])] == ["headgate", "L alone (planned)"]
