"""From a Model to responses, and back to nothing."""


def test_a_model_answers_and_leaves_nothing(models, engines, cluster, namespace, start_gateway, eventually):
    models.put(models.backend())
    models.says("Active", "True")
    gateway = start_gateway(cluster.kubeconfig, f"--namespace={namespace}")
    eventually(gateway.is_ready)
    answer = eventually(lambda: (got := gateway.ask("m")).status_code == 200 and got)
    assert answer.json()["model"] == "m"
    status = models.get("model", "m")["status"]
    assert status["observedGeneration"] == 1
    assert status["backendStatuses"] == [{"name": "b", "replicas": 1, "readyReplicas": 1}]
    models.put(models.backend("other"))
    models.there("deployments", "m-other")
    models.gone("deployments", "m-b")
    assert models.says("Active", "True")
    assert gateway.ask("m").status_code == 200
    cluster.kubectl("delete", "model", "m", "-n", namespace)
    for kind in ("deployments", "modelservers", "modelroutes", "secrets", "pods"):
        eventually(lambda kind=kind: not models.names(kind), 120)
