"""Several gateways in front of one fleet serve nearly as well as one if they share what they know."""

import random

import msgspec
import pytest

from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, Slo
from headgate.simulator.fleet.members import Member, run_members
from headgate.simulator.fleet.sharing import Sharing
from headgate.simulator.model import PROFILES, FaultSchedule
from headgate.traffic.workloads import SharedPrefix

FLEET = FleetDescription(
    groups=(EngineGroup(name="e", engine=PROFILES["8b-h100"].config, count=4),), scrape_s=1.0
)
REQUESTS = SharedPrefix(
    requests=600, rate=5.0, prefixes=24, prefix_tokens=6000, question_tokens=400, output_tokens=150
).generate(random.Random(2))
SLO = Slo(ttft_s=1.5)


def attained(count, sharing=None):
    """The share of requests within the objective."""
    members = [Member(PredictedFirstToken(index), index) for index in (PrefixIndex() for _ in range(count))]
    records = run_members(iter(REQUESTS), FLEET, members, seed=1, sharing=sharing)
    assert [record.number for record in records] == list(range(len(REQUESTS)))
    assert all(record.outcome == "served" for record in records)
    return sum(map(SLO.is_met, records)) / len(records)


def test_four_that_share_are_at_most_three_points_below_one():
    """Without sharing they lose more than that, so the test shows what sharing does."""
    one, apart = attained(1), attained(4)
    sharing = Sharing()
    assert attained(4, sharing) >= one - 0.03
    assert apart < one - 0.03
    for members in sharing.members:
        members.forget_all(1e9)


def test_lost_reports_cost_little():
    """A third of the reports is lost; whole ones replace them."""
    assert attained(4, Sharing(loss=0.33, rng=random.Random(3))) >= attained(1) - 0.05


def test_one_member_alone_is_a_fleet_as_ever():
    """Sharing with nobody changes nothing."""
    assert attained(1, Sharing()) == attained(1)


def test_faults_are_not_simulated_here():
    """A description that this run would ignore in part is refused."""
    faults = FaultSchedule.from_objects([{"kind": "crash", "engines": "*", "at_s": 1.0, "duration_s": 1.0}])
    index = PrefixIndex()
    described = msgspec.structs.replace(FLEET, faults=faults)
    with pytest.raises(ValueError, match="faults"):
        run_members([], described, [Member(PredictedFirstToken(index), index)], seed=1)
