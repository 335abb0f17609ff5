"""Models change at random moments, and controller, node, engines, gateways and API server are killed.

HEADGATE_SECONDS says how long (30), and HEADGATE_SEED what happens.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from model_story import ENGINE_COMMAND, Story, files_of_pods, some_backends
from model_traffic import load
from up_pieces import below, wait

SECONDS = float(os.environ.get("HEADGATE_SECONDS", "30"))
SEED = os.environ.get("HEADGATE_SEED", "gate")

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900 + SECONDS)]


async def test_a_model_ends_as_one_that_is_made_anew(site, models):
    """Nobody got an error while an engine could answer, and nothing is left over."""
    rng = random.Random(SEED)
    await models.put(*some_backends(rng))
    await models.settled()
    async with load(site.urls, ["m"]) as running:
        story = Story(rng, site.pieces, site.gateways, models, running)
        await story.answered()
        try:
            await story.tell(SECONDS)
            model = await models.at_rest()
            await running.goes_on()
        finally:
            print(f"seed {SEED}", *story.log, sep="\n")  # noqa: T201 - shown if the test fails
    running.has_no_failure()
    assert running.answered.total() > SECONDS
    after = await models.children(model["metadata"]["uid"])
    for name in ("m", "other"):
        await models.delete("models", name)
    await models.gone(model["metadata"]["uid"])
    await models.put(*model["spec"]["backends"])
    anew = await models.at_rest()
    assert after == await models.children(anew["metadata"]["uid"])
    await models.delete("models", "m")
    await models.gone(anew["metadata"]["uid"])
    await asyncio.to_thread(nothing_is_left, site)


def nothing_is_left(site) -> None:
    """Of Pods, on the node."""
    wait(lambda: not files_of_pods(site.directory / "state" / "node"))
    node = site.pieces.running["node"].pid
    wait(lambda: not [each for each in below(node).values() if ENGINE_COMMAND in each or " runtime " in each])
