"""The objects of a Model exist as long as it does, as it describes them, whatever others do to them."""

from headgate import api, cluster
from headgate.controllers.model import names

STRATEGIC = cluster.PatchType.STRATEGIC


async def test_a_model_gets_its_objects_and_a_status(lab, backend):
    await lab.model(backend())
    deployment = await lab.there(api.Deployment, "m-b")
    server = await lab.there(api.ModelServer, "m-b")
    await lab.there(api.ModelRoute, "m")
    secret = await lab.there(api.Secret, "m-runtime")
    model = await lab.client.get(api.Model, "m", "default")
    for each in (deployment, server, secret):
        [owner] = each["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (model.metadata.uid, True)
    assert secret["data"]["token"]
    waiting = await lab.says("Active", "False")
    assert waiting.reason == "ModelProcessing"
    assert waiting.message == "Model not ready yet: backend b: 0 of 1 replicas ready"
    await lab.run("m-b", 1)
    ready = await lab.says("Active", "True")
    assert (ready.reason, ready.message) == ("ModelAvailable", "Model is ready")
    status = (await lab.client.get(api.Model, "m", "default")).status
    assert status.observed_generation == 1
    [of_backend] = status.backend_statuses
    assert (of_backend.name, of_backend.replicas, of_backend.ready_replicas) == ("b", 1, 1)


async def test_changes_of_others_are_put_back(lab, backend):
    """Of what the controller sets; the rest stays as they want it."""
    await lab.model(backend())
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    image = (await lab.get(api.Deployment, "m-b"))["spec"]["template"]["spec"]["containers"][0]["image"]
    change = {
        "metadata": {"annotations": {"theirs": "yes"}},
        "spec": {
            "minReadySeconds": 3,
            "template": {"spec": {"containers": [{"name": "engine", "image": "other"}]}},
        },
    }
    await lab.client.patch(api.Deployment, "m-b", "default", change, kind=STRATEGIC, field_manager="person")

    async def is_back():
        now = await lab.get(api.Deployment, "m-b")
        return now["spec"]["template"]["spec"]["containers"][0]["image"] == image and now

    now = await lab.eventually(is_back)
    assert now["spec"]["minReadySeconds"] == 3
    assert now["metadata"]["annotations"]["theirs"] == "yes"


async def test_deleted_objects_come_back(lab, backend):
    await lab.model(backend())
    for kind, name in ((api.Deployment, "m-b"), (api.ModelServer, "m-b"), (api.Secret, "m-runtime")):
        before = await lab.there(kind, name)
        await lab.client.delete(kind, name, "default")

        async def is_back(kind=kind, name=name, uid=before["metadata"]["uid"]):
            now = await lab.get(kind, name)
            return now is not None and now["metadata"]["uid"] != uid

        await lab.eventually(is_back)


async def test_the_name_of_a_model_can_be_changed(lab, backend):
    """That of a ModelRoute cannot, so another one takes its place."""
    await lab.model(backend())
    before = await lab.there(api.ModelRoute, "m")
    assert before["spec"]["modelName"] == "m"
    await lab.settled()
    model = {"spec": {"name": "other"}}
    await lab.client.patch(api.Model, "m", "default", model, kind=cluster.PatchType.MERGE)

    async def is_renamed():
        now = await lab.get(api.ModelRoute, "m")
        return now is not None and now["spec"]["modelName"] == "other" and now

    now = await lab.eventually(is_renamed)
    assert now["spec"]["rules"] == before["spec"]["rules"]
    await lab.settled()
    assert (await lab.get(api.ModelRoute, "m"))["metadata"]["uid"] == now["metadata"]["uid"]
    assert "Failed" not in await lab.conditions("m")


async def test_labels_and_owners_are_put_back(lab, backend):
    """Also the label by which the controller finds its objects."""
    await lab.model(backend())
    server = await lab.there(api.ModelServer, "m-b")
    await lab.settled()
    for label in (names.MANAGED_BY, names.MODEL_UID, names.BACKEND_NAME):
        await lab.edit(api.ModelServer, "m-b", {"metadata": {"labels": {label: None}}})

        async def is_back(label=label):
            labels = (await lab.get(api.ModelServer, "m-b"))["metadata"].get("labels", {})
            return label in labels

        await lab.eventually(is_back)
        await lab.settled()
    await lab.edit(api.ModelServer, "m-b", {"metadata": {"ownerReferences": None}})

    async def has_owner():
        return (await lab.get(api.ModelServer, "m-b"))["metadata"].get("ownerReferences")

    assert await lab.eventually(has_owner) == server["metadata"]["ownerReferences"]


async def test_the_label_that_the_controller_looks_for_is_put_back(lab, backend):
    """Even if somebody gave it another value, with which the controller does not see the object any more."""
    await lab.model(backend())
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    before = await lab.get(api.Deployment, "m-b")
    change = {"metadata": {"labels": {names.MANAGED_BY: "somebody"}}, "spec": {"replicas": 3}}
    await lab.edit(api.Deployment, "m-b", change)

    async def is_back():
        now = await lab.get(api.Deployment, "m-b")
        return now["metadata"]["labels"][names.MANAGED_BY] == names.GROUP and now

    now = await lab.eventually(is_back)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["spec"]["replicas"] == 1
    assert "Failed" not in await lab.conditions()


async def test_nothing_is_written_at_rest(lab, backend):
    """Neither when others write what the controller does not own, nor with each status of a workload."""
    await lab.model(backend())
    await lab.run("m-b", 1)
    await lab.says("Active", "True")
    await lab.settled()
    before = lab.controller.statistics()
    await lab.edit(api.Deployment, "m-b", {"metadata": {"annotations": {"theirs": "yes"}}})
    await lab.client.patch_status(api.Deployment, "m-b", "default", {"observedGeneration": 1})
    await lab.edit(api.ModelServer, "m-b", {"metadata": {"annotations": {"theirs": "yes"}}})
    await lab.settled()
    after = lab.controller.statistics()
    assert after.reconciled > before.reconciled
    assert (after.applied, after.statuses_written) == (before.applied, before.statuses_written)


async def test_a_restarted_controller_changes_nothing(lab, backend, another_controller):
    await lab.model(backend())
    await lab.run("m-b", 1)
    await lab.says("Active", "True")
    await lab.settled()
    kinds = (api.Deployment, api.ModelServer, api.ModelRoute, api.Secret, api.Model)

    async def versions():
        return {
            (kind.resource.kind, each.metadata.name): each.metadata.resource_version
            for kind in kinds
            for each in await lab.client.list(kind, "default")
        }

    before = await versions()
    async with another_controller() as controller:
        await type(lab)(lab.client, controller).settled()
        assert controller.statistics().applied == 3
    assert await versions() == before


async def test_deletion_leaves_nothing(lab, backend):
    await lab.model(backend("a"), backend("b"))
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    await lab.client.delete(api.Model, "m", "default")
    for kind in (api.Model, api.Deployment, api.ModelServer, api.ModelRoute, api.Secret):

        async def is_empty(kind=kind):
            return not await lab.names(kind)

        await lab.eventually(is_empty)
    await lab.settled()
    assert lab.controller.statistics().objects == dict.fromkeys(lab.controller.statistics().objects, 0)


async def test_what_other_namespaces_claim_is_not_the_models(lab, backend):
    """Labels and owners can be copied by anybody: objects and Pods count only beside their Model."""
    await lab.model(backend())
    await lab.there(api.ModelRoute, "m")
    await lab.settled()
    await lab.client.create_manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    objects = lab.controller.statistics().objects
    server = await lab.get(api.ModelServer, "m-b")
    copied = {"name": "m-b", "namespace": "other", "labels": server["metadata"]["labels"]}
    copy = {**server, "metadata": copied}
    labels = (await lab.get(api.Deployment, "m-b"))["spec"]["template"]["metadata"]["labels"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "other", "labels": labels},
        "spec": {"containers": [{"name": "engine", "image": "i"}]},
    }
    former = {**copy, "metadata": {**copied, "name": "former"}}
    for each in (copy, former, pod):
        await lab.client.create_manifest(each)
    why = {"phase": "Failed", "message": "from another namespace"}
    await lab.client.patch_status(api.Pod, "p", "other", why)
    await lab.settled()
    assert (await lab.says("Active", "False")).reason == "ModelProcessing"
    model = await lab.client.get(api.Model, "m", "default")
    followed = lab.controller._followed
    assert not followed.pods(model)
    assert {each.metadata.namespace for each in followed.objects(model).values()} == {"default"}
    assert await lab.client.get(api.ModelServer, "former", "other")
    await lab.client.delete(api.ModelServer, "m-b", "other")
    await lab.settled()
    assert followed.objects(model)["modelservers", "m-b"].metadata.uid == server["metadata"]["uid"]
    assert lab.controller.statistics().objects == objects | {"ModelServer": 2, "Pod": 1}


async def test_a_model_that_comes_back_gets_objects_of_its_own(lab, backend):
    """While those of its predecessor still go."""
    await lab.model(backend())
    old = await lab.there(api.Deployment, "m-b")
    await lab.settled()
    await lab.client.delete(api.Model, "m", "default")
    await lab.model(backend())
    uid = (await lab.client.get(api.Model, "m", "default")).metadata.uid

    async def is_its_own():
        now = await lab.get(api.Deployment, "m-b")
        return now is not None and now["metadata"]["ownerReferences"][0]["uid"] == uid and now

    now = await lab.eventually(is_its_own)
    assert now["metadata"]["uid"] != old["metadata"]["uid"]
    assert "Failed" not in await lab.conditions()
