"""A binding may name a Model: the Model leaves the replicas of its workload to it."""

import json

OBJECTS = """
apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: by-hand}
spec: {metrics: [{metricName: "headgate:requests_in_flight", targetValue: "8"}]}
---
apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: by-hand}
spec:
  policyRef: {name: by-hand}
  scalingConfiguration:
    target: {targetRef: {apiVersion: registry.volcano.sh/v1alpha1, kind: Model, name: NAME}}
    minReplicas: 2
    maxReplicas: 3
"""


def test_replicas_of_a_model_are_those_of_the_binding(models, eventually):
    """And those of the Model again when the binding is gone."""
    [model] = json.loads(models.kubectl("get", "models", "-o", "json"))["items"]
    name = model["metadata"]["name"]

    def replicas() -> list[int]:
        found = json.loads(models.kubectl("get", "deployments", "-o", "json"))["items"]
        return [each["spec"]["replicas"] for each in found]

    assert replicas() == [1]
    models.kubectl("apply", "-f", "-", text=OBJECTS.replace("NAME", name))
    eventually(lambda: replicas() == [2], 120)
    said = json.loads(models.kubectl("get", "aspb", "by-hand", "-o", "json"))["status"]
    assert [each["kind"] for each in said["targets"]] == ["Deployment"]

    def ready() -> int:
        status = json.loads(models.kubectl("get", "model", name, "-o", "json"))["status"]
        return int(status["backendStatuses"][0].get("readyReplicas", 0))

    eventually(lambda: ready() == 2, 120)
    assert replicas() == [2]
    models.kubectl("delete", "aspb", "by-hand")
    eventually(lambda: replicas() == [1], 120)
