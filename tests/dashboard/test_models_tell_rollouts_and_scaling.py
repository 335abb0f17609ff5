"""The page of models: from the statuses of objects, and with what the gateway may not read."""

import re

import pytest

from headgate import dashboard
from headgate.dashboard import models


async def text_of(http):
    answer = await http.get("/dashboard/models")
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


async def test_a_rollout_is_told(http, workers, told):
    """How many replicas of each backend there are, and what its conditions say."""
    workers.there = told.objects("m")
    page = await text_of(http)
    assert "m/m its last change is not taken up yet b: 2 of 3 replicas ready, 1 to 4 wanted" in page
    assert "adapter m Failed: m" in page
    assert "Active is False: m since 2026-01-01T00:00:00Z: m" in page
    assert "unseen" not in page  # that it has not failed is no news


async def test_a_decision_is_told(http, workers, told):
    """Replicas, what the metrics ask for, the rule that bounds it, and the events of its history."""
    workers.there = told.objects("m")
    page = await text_of(http)
    assert "m/m AutoscalingPolicyBinding 2 4 9 m m for m each, bounded by m m m ScalingLimited" in page
    assert "m m m/m m m 7" in page


async def test_what_may_not_be_read_is_told(http, workers):
    """A gateway in a cluster has no rights to Models unless somebody grants them."""
    workers.there = dashboard.Objects(missing=["This gateway may not list models.registry.volcano.sh"])
    page = await text_of(http)
    assert "What cannot be shown This gateway may not list models.registry.volcano.sh" in page


@pytest.mark.parametrize(
    ("kind", "status", "shown", "is_bad"),
    [
        ("Active", "True", "Active", False),
        ("Active", "Unknown", "Active is Unknown: why", True),
        ("Failed", "True", "Failed", True),
        ("Failed", "False", None, None),
        ("ScalingLimited", "True", "ScalingLimited", False),
    ],
)
def test_conditions_are_good_or_bad(told, kind, status, shown, is_bad):
    """By their type: some should hold, others tell of trouble if they do."""
    condition = told.objects().models[0].status.conditions[0]
    changed = type(condition)(type=kind, status=status, reason="why", message="", last_transition_time="")
    rows = models.conditions([changed])
    assert [(row.words, row.is_bad) for row in rows] == ([] if shown is None else [(shown, is_bad)])


async def test_a_gateway_without_an_api_server_has_none(http, workers):
    """The page says so in one sentence, without empty tables."""
    workers.said = workers.said | {"has_api_server": False}
    page = (await http.get("/dashboard/models")).text
    assert "This gateway has no API server, and so no Models" in page
    assert "<table>" not in page
    assert "From the API server" not in page
