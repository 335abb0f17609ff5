"""spec.name is what requests call a Model by."""

from __future__ import annotations

import pytest
from fleet_of_models import backend

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


async def test_a_model_is_known_by_its_new_name_at_once(models, under_load, eventually_answers):
    """The old name answers until the new one does."""
    await models.put(backend())
    await models.settled()
    async with under_load("m") as load:
        for name in ("second", "third", "m"):
            await models.put(backend(), public=name)
            await eventually_answers(name)
            load.names[:] = [name]
            await models.settled()
            await load.goes_on()
