"""A ModelRoute cannot change the name of its model, so another one stands in."""

from headgate import api


async def names_of(lab) -> dict[str, str]:
    return {
        each.metadata.name: each.spec.model_name or ""
        for each in await lab.client.list(api.ModelRoute, "default")
    }


async def test_the_usual_route_gets_the_new_name(lab, backend):
    """Some route has the old name or the new one at any time."""
    await lab.model(backend())
    await lab.run("m-b", 1)
    await lab.says("Active", "True")
    await lab.model(backend(), called="new")
    seen = []

    async def is_done() -> bool:
        found = await names_of(lab)
        seen.append(set(found.values()))
        return found == {"m": "new"}

    await lab.eventually(is_done)
    assert seen[-1] == {"new"}
    assert all(found & {"m", "new"} for found in seen)
    assert {"m", "new"} in seen
