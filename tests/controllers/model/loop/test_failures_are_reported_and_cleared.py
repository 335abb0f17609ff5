"""What keeps a Model from its objects is in the condition Failed, and no longer when it is over."""

from headgate import api, cluster
from headgate.controllers.model import names
from headgate.controllers.model.observed import KnownDeployment


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


async def test_what_kubectl_shows_says_that_a_generation_failed(lab, backend):
    """It shows Active, which stays as it was for what runs."""
    await lab.model(backend())
    await lab.run("m-b", 1)
    await lab.says("Active", "True")
    await lab.client.create_manifest(server("m-c"))
    await lab.model(backend("b"), backend("c"))
    failed = await lab.says("Failed", "True")
    active = (await lab.conditions())["Active"]
    assert (active.status, active.observed_generation) == ("True", 1)
    assert active.message == f"Model is ready; generation 2 could not be processed: {failed.message}"
    await lab.model(backend("b"))
    await lab.says("Failed", "False")
    assert (await lab.conditions())["Active"].message == "Model is ready"


async def test_an_error_of_the_api_server_names_the_object(lab, backend, monkeypatch):
    """And not the request that failed."""
    patch = lab.client.patch

    async def refused(kind, name, *args, **kwargs):
        if kind is not KnownDeployment:
            return await patch(kind, name, *args, **kwargs)
        message = 'admission webhook "x" denied the request: no'
        raise cluster.ApiError(message, status_code=400, request=f"PATCH /apis/apps/v1/{name}")

    monkeypatch.setattr(lab.client, "patch", refused)
    await lab.model(backend())
    failed = await lab.says("Failed", "True")
    assert failed.message == (
        'Deployment m-b cannot be written: admission webhook "x" denied the request: no'
    )
    active = await lab.says("Active", "False")
    assert active.message == f"Model not ready yet; generation 1 could not be processed: {failed.message}"


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


async def test_a_token_without_its_label_is_still_its_own(lab, backend):
    """The controller does not follow such a Secret, and must not change it: a person can."""
    await lab.model(backend())
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    await lab.edit(api.Secret, "m-runtime", {"metadata": {"labels": {names.MANAGED_BY: "me"}}})
    failed = await lab.says("Failed", "True")
    label = f"{names.MANAGED_BY}={names.GROUP}"
    assert f"Secret m-runtime of this Model has lost its label {label}: put it back with" in failed.message
    await lab.edit(api.Secret, "m-runtime", {"metadata": {"labels": {names.MANAGED_BY: names.GROUP}}})
    await lab.says("Failed", "False")


async def test_a_token_of_somebody_else_is_not_taken(lab, backend):
    metadata = {"name": "m-runtime", "namespace": "default"}
    await lab.client.create_manifest({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    await lab.model(backend())
    failed = await lab.says("Failed", "True")
    assert "Secret m-runtime exists already and was not made by this Model" in failed.message


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


async def test_a_rollout_that_fails_while_the_model_serves_is_an_event(lab, backend):
    """One for each cause, however often the Pod reports it."""
    await lab.model(backend())
    await lab.run("m-b", 1)
    await lab.says("Active", "True")
    labels = (await lab.there(api.Deployment, "m-b"))["spec"]["template"]["metadata"]["labels"]
    await lab.client.create_manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "engine", "image": "nowhere"}]},
        }
    )
    for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull"):
        waiting = {"waiting": {"reason": reason, "message": "no such image"}}
        status = {"phase": "Pending", "containerStatuses": [{"name": "engine", "state": waiting}]}
        await lab.client.patch_status(api.Pod, "p", "default", status)

        async def is_shown(reason=reason):
            return reason in (await lab.conditions())["Active"].message

        await lab.eventually(is_shown)
    assert (await lab.conditions())["Active"].status == "True"

    async def told():
        events = await lab.client.list(api.Event, "default")
        return [each for each in events if each.type == "Warning"]

    await lab.eventually(told)
    await lab.settled()
    (event,) = await told()
    assert event.reason == "EngineFailing"
    assert event.count == 1
    assert event.message == (
        "backend b: Pod p, container engine: ErrImagePull: no such image; 1 of 1 replicas serve"
    )
