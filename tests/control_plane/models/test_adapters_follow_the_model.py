"""Adapters are loaded into every Pod of a backend that takes them at run time, also into later ones."""

ALLOWED = [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "true"}]


def adapters(*names: str, source: str = "hf://org/adapter") -> list[dict[str, str]]:
    return [{"name": name, "artifactURL": source} for name in names]


def test_adapters_come_and_go_without_a_rollout(
    models, engines, cluster, namespace, start_gateway, eventually
):
    models.put(models.backend(env=ALLOWED, loraAdapters=adapters("one")))
    models.says("AdaptersLoaded", "True")
    pods = models.names("pods")

    def states():
        [backend] = models.get("model", "m")["status"]["backendStatuses"]
        return {each["name"]: (each["state"], each.get("loaded", 0)) for each in backend.get("adapters", [])}

    assert states() == {"one": ("Loaded", 1)}
    models.put(models.backend(env=ALLOWED, loraAdapters=adapters("one", "two")))
    eventually(lambda: states() == {"one": ("Loaded", 1), "two": ("Loaded", 1)}, 120)
    assert models.names("pods") == pods
    gateway = start_gateway(cluster.kubeconfig, f"--namespace={namespace}")
    eventually(gateway.is_ready)
    eventually(lambda: gateway.ask("two").status_code == 200)
    models.put(models.backend(env=ALLOWED, loraAdapters=adapters("two"), minReplicas=2, maxReplicas=2))
    eventually(lambda: states() == {"two": ("Loaded", 2)}, 180)
    assert pods < models.names("pods")
    wrong = adapters("two") + adapters("gone", source="hf://org/nowhere")
    models.put(models.backend(env=ALLOWED, loraAdapters=wrong, minReplicas=2, maxReplicas=2))
    condition = models.says("AdaptersLoaded", "False")
    condition = eventually(
        lambda: (got := models.says("AdaptersLoaded", "False"))["reason"] == "AdapterFailed" and got
    )
    assert "adapter gone: Pod m-b-" in condition["message"]
    assert "org/nowhere" in condition["message"]
    assert models.says("Active", "True")
