"""Our default policy and formulas of others pick in one gateway, before engines of two speeds."""

import math

import pytest
import yaml

import cpu
import mixed_speeds_live as mixed
from headgate.scheduling import configuration
from live import clients, policies, prompts


def row(policy, *within, idle=0.9):
    return mixed.Run(
        policy=policy, within=list(within), mean_ttft_s=1.0, hit_rate=0.2, slow_share=0.3, idle=idle
    )


def test_late_requests_and_those_without_an_answer_are_no_goodput():
    """Of four requests one came in 2 s, another in 4 s, a third too late, and the last was cut."""
    asked = [prompts.Request(0.0, 1000, 1, ())] * 4
    seen = [
        clients.Seen(200, 0.5, 1.0, True),
        clients.Seen(200, 2.5, 3.0, True),
        clients.Seen(200, 5.0, 6.0, True),
        clients.Seen(200, 0.1, 0.2, False),
    ]
    did = [{"prefilled_tokens": tokens} for tokens in (1000.0, 800.0, 400.0, 200.0)]
    found = mixed.summary("headgate", seen, did, asked, 0.5)
    assert found.within == [0.25, 0.5]
    assert (found.mean_ttft_s, found.hit_rate, found.slow_share) == (2.667, 0.4, 0.25)


def test_a_policy_without_any_answer_has_no_mean():
    """It is beyond all times, and no error."""
    asked = [prompts.Request(0.0, 1000, 1, ())]
    seen = [clients.Seen(503, None, 0.1, True)]
    found = mixed.summary("headgate", seen, [{"prefilled_tokens": 0}], asked, 1)
    assert (found.within, found.mean_ttft_s, found.slow_share) == ([0.0, 0.0], math.inf, 0.0)


def test_medians_of_rounds_are_compared():
    """Ours to the best of the others within each limit, whoever that is; one bad round does not decide."""
    runs = [row("headgate", 0.2, 0.3), row("a", 0.8, 0.9), row("b", 0.6, 0.95)]
    runs += [row("headgate", 0.76, 0.95, idle=0.1), row("a", 0.8, 0.9), row("b", 0.6, 0.95)]
    runs += [row("headgate", 0.78, 0.97), row("a", 0.8, 0.9), row("b", 0.6, 0.95)]
    rows = mixed.medians(runs)
    assert rows[0].within == [0.76, 0.95]
    assert mixed.of_best_peer(rows) == [0.95, 1.0]
    assert [line.split(":")[0] for line in mixed.verdict(rows)] == [
        "headgate of the best peer",
        "Less than 25% of the machine was idle in a run",
    ]
    assert mixed.of_best_peer(rows[:1]) == []


@pytest.mark.parametrize("policy", policies.POLICIES)
def test_each_policy_is_a_configuration_of_the_gateway(policy, tmp_path):
    """Files are read without a problem; ours is what the gateway does by itself."""
    flags = policies.flags(policy, tmp_path)
    if policy == policies.OURS:
        assert flags == ()
    elif flags[0] == "--scheduling-config-file":
        reading = configuration.read(yaml.safe_load((tmp_path / "scheduling.yaml").read_text()))
        assert reading.plan is not None
        assert not reading.problems
    else:
        assert flags[0] == "--scheduling-policy"


def test_idle_time_is_a_part_of_all_time():
    """Of all cores, since the machine started."""
    idle, every = cpu.machine_ticks()
    assert 0 <= idle <= every
