"""Why a Model does not run is in its status: no such repository, an engine that ends, no machine for it."""


def test_a_repository_that_does_not_exist(models, engines, eventually):
    models.put(models.backend(modelURI="hf://org/nowhere"))

    def told():
        condition = models.says("Active", "False")
        return condition["reason"] == "DownloadFailed" and condition["message"]

    message = eventually(told, 120)
    assert "backend b: 0 of 1 replicas ready: Pod m-b-" in message
    assert "org/nowhere" in message
    models.put(models.backend())
    models.says("Active", "True")


def test_an_engine_that_ends(models, engines, eventually):
    worker = {"type": "server", "image": "unknown/engine"}
    models.put(models.backend(workers=[worker]))

    def told():
        condition = models.says("Active", "False")
        return condition["reason"] == "EngineFailing" and condition["message"]

    assert "container engine" in eventually(told, 120)


def test_no_machine_suits(models, engines, eventually):
    resources = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
    models.put(models.backend(workers=[{"type": "server", "resources": resources}]))

    def told():
        condition = models.says("Active", "False")
        return condition["reason"] == "Unschedulable" and condition["message"]

    assert "nvidia.com/gpu" in eventually(told)
