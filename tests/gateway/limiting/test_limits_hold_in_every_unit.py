"""A limit works alike in every unit: used tokens return evenly over that time."""

import pytest

from headgate import routing

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "month": 2_592_000}


@pytest.fixture(params=UNITS.items(), ids=UNITS)
def limit(request):
    """Makes a limit of the input in one of the units."""
    unit, unit_s = request.param
    return lambda tokens: routing.TokenLimits(input=tokens, output=None, unit=unit, unit_s=unit_s)


@pytest.fixture
async def start_at_rest(start_gateway):
    """Starts a gateway with a limit, whose clock stands still until it is set."""

    async def start(endpoint, limits):
        gateway = await start_gateway()
        gateway.shell.services.now = lambda: 1000.0
        gateway.serve([endpoint], limits)

        def pass_time(seconds):
            gateway.shell.services.now = lambda: 1000.0 + seconds

        return gateway, pass_time

    return start


async def test_the_second_prompt_waits_until_its_tokens_are_back(
    start_at_rest, start_endpoint, limit, prompt, counted
):
    """R29: of 10 tokens 8 are used, and the 6 that are missing for 8 more come in six tenths of the unit."""
    allowed = limit(10)
    gateway, pass_time = await start_at_rest(await start_endpoint(counted(8, 1)), allowed)
    assert (await gateway.ask(prompt(8))).status == 200
    refused = await gateway.ask(prompt(8))
    assert refused.status == 429
    assert f"10 input tokens per {allowed.unit}" in refused.json["error"]["message"]
    assert int(refused.header("retry-after")) == max(round(0.6 * allowed.unit_s), 1)
    pass_time(0.59 * allowed.unit_s)
    assert (await gateway.ask(prompt(8))).status == 429
    pass_time(0.61 * allowed.unit_s)
    assert (await gateway.ask(prompt(8))).status == 200


async def test_a_prompt_beyond_the_whole_limit_never_passes(start_at_rest, endpoint, limit, prompt):
    """R32: not after ten of its units either, and the limit is untouched by it."""
    allowed = limit(5)
    gateway, pass_time = await start_at_rest(endpoint, allowed)
    for units in (0, 1, 10):
        pass_time(units * allowed.unit_s)
        refused = await gateway.ask(prompt(9))
        assert refused.status == 429
        assert "it can never pass" in refused.json["error"]["message"]
    (told,) = gateway.shell.plane.routes.limits.by_route.values()
    assert told.input.budget.available(gateway.shell.now()) == 5
    assert not endpoint.calls
