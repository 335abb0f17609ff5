"""The objects of a Model stay as it describes them, and replicas belong to the autoscaler that is bound."""

POLICY = {"metrics": [{"metricName": "num_requests_waiting", "targetValue": 10}]}


def test_changes_of_others_are_put_back(models, cluster, namespace, eventually):
    """Of what the controller sets; the rest stays as they want it."""
    models.put(models.backend())
    deployment = models.there("deployments", "m-b")
    models.there("modelroutes", "m")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    cluster.kubectl("set", "image", "deployment/m-b", "engine=other", "-n", namespace)
    cluster.kubectl("patch", "deployment", "m-b", "-n", namespace, "-p", '{"spec": {"minReadySeconds": 3}}')
    cluster.kubectl("label", "modelserver", "m-b", "registry.volcano.sh/managed-by-", "-n", namespace)
    cluster.kubectl("scale", "deployment/m-b", "--replicas=4", "-n", namespace)
    cluster.kubectl("delete", "modelroute", "m", "-n", namespace)

    def is_back():
        spec = models.get("deployment", "m-b")["spec"]
        labels = models.get("modelserver", "m-b")["metadata"]["labels"]
        return (
            spec["template"]["spec"]["containers"][0]["image"] == image
            and (spec["replicas"], spec["minReadySeconds"]) == (1, 3)
            and "registry.volcano.sh/managed-by" in labels
            and "m" in models.names("modelroutes")
        )

    eventually(is_back)


def test_an_autoscaler_gets_the_replicas_as_they_are(models, cluster, namespace, eventually):
    """The number is never 1 in between, which a field that nobody owns would become."""
    models.put(models.backend(minReplicas=3, maxReplicas=3))
    models.there("deployments", "m-b")
    models.there("modelroutes", "m")
    models.put(models.backend(minReplicas=3, maxReplicas=9, autoscalingPolicy=POLICY))

    def owners():
        words = ["deployment", "m-b", "-n", namespace, "--show-managed-fields"]
        fields = cluster.get(*words)["metadata"]["managedFields"]
        return {each["manager"] for each in fields if "f:replicas" in each["fieldsV1"].get("f:spec", {})}

    eventually(lambda: owners() == {"headgate-model-handover"})
    cluster.kubectl("scale", "deployment/m-b", "--replicas=5", "-n", namespace)
    worker = {"type": "server", "image": "other"}
    models.put(models.backend(minReplicas=3, maxReplicas=9, autoscalingPolicy=POLICY, workers=[worker]))

    def is_rolled_out():
        [engine] = models.get("deployment", "m-b")["spec"]["template"]["spec"]["containers"]
        return engine["image"] == "other"

    eventually(is_rolled_out)
    assert models.get("deployment", "m-b")["spec"]["replicas"] == 5
    # No ReplicaSet was ever told another number.
    replicas = {
        each["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"]
        for each in cluster.get("replicasets", "-n", namespace)["items"]
    }
    assert replicas <= {"3", "5"}
    models.put(models.backend(minReplicas=2, maxReplicas=2))
    models.gone("autoscalingpolicybindings", "m-b")
    models.gone("autoscalingpolicies", "m-b")
    eventually(lambda: models.get("deployment", "m-b")["spec"]["replicas"] == 2)
