"""The contest of queues on a few seconds of traffic."""

import json

import pytest
from click.testing import CliRunner

import fairness
from neighbours.traffic import NOISY, QUIET, Traffic


@pytest.fixture
def traffic():
    return Traffic(
        rate=40, load=0.8, times=10, longer=4, seconds=500, prompt_tokens=100, output_tokens=10, seed=3
    )


def test_tenants_ask_for_their_shares(traffic):
    """Each quiet one for a tenth of what the fleet carries, the noisy one for ten times as much work."""
    asked = traffic.requests(noise=True)
    work = {
        tenant: sum(each.prompt_tokens for each in asked if each.tenant == tenant)
        for tenant in (*QUIET, NOISY)
    }
    for tenant in QUIET:
        assert work[tenant] / traffic.seconds / 100 == pytest.approx(4, rel=0.1)
    assert work[NOISY] / traffic.seconds / 100 == pytest.approx(40, rel=0.1)
    assert [each.at_s for each in asked] == sorted(each.at_s for each in asked)


def test_the_quiet_ask_the_same_with_the_noise_and_without(traffic):
    """What differs is what the noise does."""
    quiet = [each for each in traffic.requests(noise=True) if each.tenant != NOISY]
    assert quiet == traffic.requests(noise=False)


def test_the_noise_costs_others_less_with_our_queue():
    """Of one run in virtual time: no request is lost, and the order of queues is the table's point."""
    said = CliRunner().invoke(
        fairness.main,
        ["--seconds", "20", "--only", "headgate,FCFS", "--output", "json"],
        catch_exceptions=False,
    )
    rows = json.loads(said.stdout)["rows"]
    assert [row["lost"] for row in rows.values()] == [0, 0, 0, 0]
    ours, fcfs = rows["headgate"], rows["FCFS"]
    assert ours["quiet_p99_s"] < fcfs["quiet_p99_s"] / 2
    assert ours["work_per_s"] > 0.95 * fcfs["work_per_s"]
