"""The limit of a ModelRoute reaches its route."""

import pytest

from headgate import routing


def limits(route, server, **limit):
    made = routing.translate([route("limited", rateLimit=limit)], [server()], [])
    return made.models["m"][0].limits


@pytest.mark.parametrize(
    ("unit", "unit_s"), [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("month", 2_592_000)]
)
def test_units_have_their_seconds(route, server, unit, unit_s):
    """A month is 30 days."""
    made = limits(route, server, inputTokensPerUnit=10, outputTokensPerUnit=20, unit=unit)
    assert made == routing.TokenLimits(input=10, output=20, unit=unit, unit_s=unit_s)


def test_one_side_alone_is_limited(route, server):
    """The other is left unset; the unit is a second unless it is given."""
    made = limits(route, server, outputTokensPerUnit=5)
    assert made == routing.TokenLimits(output=5, unit="second", unit_s=1)


def test_a_limit_may_be_shared(route, server):
    """The address of the Redis is kept as it is written."""
    made = limits(route, server, inputTokensPerUnit=5, **{"global": {"redis": {"address": "redis:6379"}}})
    assert made.redis_address == "redis:6379"


def test_a_limit_of_nothing_is_none(route, server):
    """A rateLimit without numbers limits nothing, with or without a Redis."""
    assert limits(route, server, unit="hour") is None
    assert limits(route, server, **{"global": {"redis": {"address": "redis:6379"}}}) is None
