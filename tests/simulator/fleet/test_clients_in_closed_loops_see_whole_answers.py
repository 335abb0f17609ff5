"""Clients that send a request when the one before is answered, some of whom want no stream."""

import pytest

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import PROFILES
from headgate.traffic.traces import TimedRequest

ENGINE = PROFILES["8b-h100"].config
UNTIL_S = 3.0


class Ledger(Observer):
    """Keeps what the gateway's ledger has of prompts that it cannot see."""

    def __init__(self):
        self.unseen = []

    def sent(self, request, load, now):
        self.unseen.append(load.unseen_tokens)

    def ended(self, request, load, now):
        self.rates = load.estimator.rates


@pytest.fixture
def looped():
    def run(is_streamed):
        turn = TimedRequest(
            at_s=0.0,
            think_s=0.5,
            prompt_tokens=100,
            output_tokens=16,
            session=1,
            is_streamed=is_streamed,
            until_s=UNTIL_S,
        )
        first = TimedRequest(
            at_s=0.0, prompt_tokens=100, output_tokens=16, session=1, is_streamed=is_streamed
        )
        ledger = Ledger()
        fleet = FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE),))
        policy = scheduling.PredictedFirstToken(PrefixIndex())
        return run_fleet([first, *[turn] * 50], fleet, policy, seed=1, observer=ledger), ledger

    return run


def test_a_client_stops_when_it_is_told_to(looped):
    """No turn comes later, and none is lost."""
    run, _ = looped(True)
    assert 2 < len(run.records) < 50
    assert max(record.arrived_s for record in run.records) <= UNTIL_S
    assert {record.outcome for record in run.records} == {"served"}


def test_of_an_answer_that_is_not_streamed_its_end_is_seen(looped):
    """By the client and by the ledger, which learns nothing from it."""
    run, ledger = looped(False)
    assert all(record.first_token_s == record.ended_s for record in run.records)
    assert set(ledger.unseen) == {100}
    assert ledger.rates.observations == 0
    run, ledger = looped(True)
    assert all(record.first_token_s < record.ended_s for record in run.records)
    assert set(ledger.unseen) == {0}
    assert ledger.rates.observations > 0
