"""A renamed backend comes up before the one that it replaces goes."""

from headgate import api


def targets(route) -> set[str]:
    rules = route["spec"]["rules"]
    return {each["modelServerName"] for rule in rules for each in rule["targetModels"]}


async def test_a_renamed_backend_replaces_the_old_one_once_it_is_ready(lab, backend):
    await lab.model(backend("old"))
    await lab.run("m-old", 1)
    await lab.says("Active", "True")
    await lab.model(backend("new"))
    await lab.there(api.Deployment, "m-new")
    waiting = await lab.says("Active", "False")
    assert waiting.message == (
        "Model not ready yet: backend new: 0 of 1 replicas ready; m-old of a former backend still serves"
    )
    await lab.settled()
    assert await lab.names(api.Deployment) == {"m-old", "m-new"}
    assert await lab.names(api.ModelServer) == {"m-old", "m-new"}
    assert "m-old" in targets(await lab.get(api.ModelRoute, "m"))
    await lab.run("m-new", 1)
    await lab.gone(api.Deployment, "m-old")
    await lab.gone(api.ModelServer, "m-old")
    assert targets(await lab.get(api.ModelRoute, "m")) == {"m-new"}
    await lab.says("Active", "True")


async def test_a_former_backend_that_never_served_goes_at_once(lab, backend):
    """It would keep machines from the new one."""
    await lab.model(backend("wrong"))
    await lab.there(api.Deployment, "m-wrong")
    await lab.model(backend("right"))
    await lab.gone(api.Deployment, "m-wrong")
    await lab.gone(api.ModelServer, "m-wrong")
    assert await lab.names(api.Deployment) == {"m-right"}
