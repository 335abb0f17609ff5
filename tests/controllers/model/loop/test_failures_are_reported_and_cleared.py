"""What keeps a Model from its objects is in the condition Failed, and no longer when it is over."""

from headgate import api


def server(name: str) -> dict:
    return {
        "apiVersion": api.ModelServer.resource.api_version,
        "kind": "ModelServer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"app": "theirs"}}},
    }


async def test_objects_of_others_are_not_taken(lab, backend):
    await lab.client.create_manifest(server("m-b"))
    await lab.model(backend())
    failed = await lab.says("Failed", "True")
    assert failed.reason == "ModelAbnormal"
    assert failed.message == (
        "ModelServer m-b exists already and was not made by this Model: delete it, or rename the Model "
        "or its backend"
    )
    status = (await lab.client.get(api.Model, "m", "default")).status
    assert status.observed_generation is None
    theirs = await lab.get(api.ModelServer, "m-b")
    assert theirs["spec"]["workloadSelector"] == {"matchLabels": {"app": "theirs"}}
    assert "ownerReferences" not in theirs["metadata"]
    await lab.client.delete(api.ModelServer, "m-b", "default")
    await lab.model(backend(routeWeight=50))
    cleared = await lab.says("Failed", "False")
    assert cleared.reason == "ModelHealthy"
    assert (await lab.client.get(api.Model, "m", "default")).status.observed_generation == 2


async def test_models_whose_objects_would_have_one_name_do_not_share_them(lab, backend):
    await lab.model(backend("b-c"), name="a")
    await lab.there(api.ModelRoute, "a")
    await lab.settled()
    await lab.model(backend("c"), name="a-b")
    failed = await lab.says("Failed", "True", name="a-b")
    assert "Deployment a-b-c exists already and belongs to Model a" in failed.message
    assert "Failed" not in await lab.conditions("a")


async def test_a_model_that_waits_for_its_predecessor_says_so(lab, backend):
    """An object of a former Model of this name may have a finalizer."""
    await lab.model(backend())
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    await lab.edit(api.Deployment, "m-b", {"metadata": {"finalizers": ["example.com/theirs"]}})
    await lab.client.delete(api.Model, "m", "default")
    await lab.model(backend())
    waiting = await lab.says("Active", "False", reason="ModelProcessing")
    assert waiting.message == (
        "Model not ready yet: Deployment m-b of a former Model of this name is still being deleted"
    )
    await lab.edit(api.Deployment, "m-b", {"metadata": {"finalizers": None}})
    await lab.run("m-b", 1)
    await lab.says("Active", "True")


async def test_a_token_that_cannot_be_read_is_reported(lab, backend):
    await lab.model(backend())
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    await lab.edit(api.Secret, "m-runtime", {"data": {"token": None}})
    failed = await lab.says("Failed", "True")
    assert failed.message == "Secret m-runtime has no key token: delete it, and another one will be created"
    await lab.client.delete(api.Secret, "m-runtime", "default")
    await lab.says("Failed", "False")


async def test_turns_become_events(lab, backend):
    await lab.model(backend())
    await lab.says("Active", "False")
    await lab.run("m-b", 1)
    await lab.says("Active", "True")
    await lab.client.create_manifest(server("m-c"))
    await lab.model(backend("b"), backend("c"))
    await lab.says("Failed", "True")

    async def told():
        events = await lab.client.list(api.Event, "default")
        found = {(each.type, each.reason) for each in events if each.involved_object.kind == "Model"}
        wanted = {("Normal", "ModelProcessing"), ("Normal", "ModelAvailable"), ("Warning", "ModelAbnormal")}
        return found >= wanted

    await lab.eventually(told)
