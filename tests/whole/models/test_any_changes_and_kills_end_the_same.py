"""Models change at random moments, and controller, node, engines, gateways and API server are killed.

HEADGATE_SECONDS says how long (30), and HEADGATE_SEED what happens.
"""

from __future__ import annotations

import pytest
from model_story import SECONDS, any_story

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900 + SECONDS)]


async def test_a_model_ends_as_one_that_is_made_anew(site, models):
    """Nobody got an error while an engine could answer, and nothing is left over."""
    await any_story(site.pieces, site.gateways, models, site.directory / "state" / "node")
