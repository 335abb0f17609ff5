"""A limit that goes on in another Redis is there as that has it: requests under way end by the old."""

import msgspec
import pytest

from headgate import api, routing
from headgate.flow.limits import LocalBudget, RouteLimit

HERE = routing.TokenLimits(input=100, output=100, unit="hour", unit_s=3600)
THERE = msgspec.structs.replace(HERE, redis_address="redis:6379")


def route(limits: routing.TokenLimits) -> routing.Route:
    key = api.ObjectRef("ModelRoute", "default", "route")
    return routing.Route(key=key, name="route", model="m", adapters=(), rules=(), limits=limits)


@pytest.fixture
def budgets():
    """All that were made, by direction and address."""
    return {}


@pytest.fixture
def limit(budgets):
    """That of a route that counts here."""

    def make(of, direction, tokens, now):
        budget = LocalBudget(tokens, 3600, now)
        if of.limits.redis_address:
            budget.take(50, now)  # which somebody else has
        return budgets.setdefault((direction, of.limits.redis_address), budget)

    return RouteLimit(route(HERE), make, 0.0)


def test_a_request_under_way_is_settled_where_it_was_counted(limit, budgets):
    """What it did not use, or used beyond its estimate, is nothing to the new count."""
    reservation = limit.reserve(40, 40, 0.0)
    limit.change(route(THERE), 0.0)
    reservation.settle(10, 60, 0.0)
    assert budgets["input", None].available(0.0) == 90
    assert budgets["output", None].available(0.0) == 40
    assert budgets["input", "redis:6379"].available(0.0) == 50
    assert budgets["output", "redis:6379"].available(0.0) == 50


def test_what_is_told_goes_on(limit):
    """Counters of what was used and refused never go back, and what is reserved counts the new requests."""
    limit.reserve(40, 40, 0.0).settle(10, 60, 0.0)
    limit.refused(limit.shortage(1000, 0.0))
    under_way = limit.reserve(10, 10, 0.0)
    limit.change(route(THERE), 0.0)
    assert (limit.input.used, limit.output.used, limit.input.refused) == (10, 60, 1)
    reservation = limit.reserve(20, 20, 0.0)
    under_way.settle(0, 0, 0.0)
    assert limit.input.reserved == 20
    reservation.settle(20, 20, 0.0)
    assert (limit.input.reserved, limit.input.used) == (0, 30)
    limit.validate()
