import pytest

from headgate.scheduling import LeastWork
from headgate.simulator.fleet import run_fleet
from headgate.simulator.model import PROFILES


@pytest.fixture
def run(fleet_of, engine_of):
    """Runs requests on engines of 100 W, 10 W idle, and a dollar a second: 2 s, then 1 s for each token."""

    def make(requests, count=1, **more):
        engine = engine_of(power_w=100.0, idle_power_w=10.0, dollars_per_hour=3600.0, **more)
        return run_fleet(requests, fleet_of(count, engine), LeastWork(), seed=1)

    return make


def test_an_engine_draws_more_while_it_works(run, timed):
    """Busy for 2 x 4 s of 14 s, with three tokens for each of two requests."""
    result = run([timed(0.0), timed(10.0)])
    (engine,) = result.engines
    assert engine.energy_j == pytest.approx(8 * 100 + 6 * 10)
    assert engine.dollars == pytest.approx(14)
    summary = result.summary()
    assert summary.joules_per_output_token == pytest.approx(860 / 6)
    assert summary.dollars_per_million_output_tokens == pytest.approx(14e6 / 6)


def test_engines_that_idle_cost_too(run, timed):
    """Twice as many for the same work are twice the money, and their idle power."""
    one, two = (run([timed(0.0), timed(10.0)], count) for count in (1, 2))
    assert sum(each.dollars for each in two.engines) == pytest.approx(28)
    spare_j = sum(each.energy_j for each in two.engines) - one.engines[0].energy_j
    assert spare_j == pytest.approx(14 * 10)


def test_a_run_without_tokens_costs_nothing_for_each(run, timed):
    """Whatever it used: there is nothing to divide by."""
    summary = run([timed(0.0, prompt_tokens=100_000)]).summary()
    assert (summary.joules_per_output_token, summary.dollars_per_million_output_tokens) == (0, 0)


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "fast"])
def test_profiles_know_what_their_accelerators_draw_and_cost(name):
    """Idle less than busy."""
    config = PROFILES[name].config
    assert 0 < config.idle_power_w < config.power_w
    assert config.dollars_per_hour > 0
