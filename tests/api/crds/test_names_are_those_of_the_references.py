"""Group, version, plural, short name and scope: what manifests say, and what people type."""

from headgate import api

NAMES = {
    ("modelroutes.networking.volcano.sh", "v1alpha1", "ModelRoute", "mr"),
    ("modelservers.networking.volcano.sh", "v1alpha1", "ModelServer", "ms"),
    ("models.registry.volcano.sh", "v1alpha1", "Model", "mdl"),
    ("autoscalingpolicies.registry.volcano.sh", "v1alpha1", "AutoscalingPolicy", "asp"),
    ("autoscalingpolicybindings.registry.volcano.sh", "v1alpha1", "AutoscalingPolicyBinding", "aspb"),
    ("inferencepools.inference.networking.x-k8s.io", "v1alpha1", "InferencePool", ""),
    ("inferencemodels.inference.networking.x-k8s.io", "v1alpha1", "InferenceModel", "infmodel"),
    ("inferenceobjectives.inference.networking.x-k8s.io", "v1alpha2", "InferenceObjective", "infobj"),
    ("inferencemodelrewrites.inference.networking.x-k8s.io", "v1alpha2", "InferenceModelRewrite", ""),
    ("inferencepools.inference.networking.k8s.io", "v1", "InferencePool", "infpool"),
    ("variantautoscalings.llmd.ai", "v1alpha1", "VariantAutoscaling", "va"),
    ("tenants.headgate.dev", "v1alpha1", "Tenant", "tn"),
}


def test_every_kind_has_the_names_of_its_reference() -> None:
    """A manifest for the reference is one for us."""
    found = {
        (
            crd["metadata"]["name"],
            crd["spec"]["versions"][0]["name"],
            crd["spec"]["names"]["kind"],
            ", ".join(crd["spec"]["names"]["shortNames"]),
        )
        for crd in api.custom_definitions()
    }
    assert found == NAMES


def test_every_kind_is_namespaced_has_a_status_apart_and_the_category_headgate() -> None:
    """`kubectl get headgate` lists all of them. Nobody reports on Tenants, which need no other object."""
    for crd in api.custom_definitions():
        spec = crd["spec"]
        assert spec["scope"] == "Namespaced"
        has_status = spec["names"]["kind"] != "Tenant"
        assert ("status" in spec["versions"][0]["subresources"]) == has_status
        assert "headgate" in spec["names"]["categories"]


def test_no_name_stands_for_two_kinds() -> None:
    """Apart from InferencePool, whose two versions are in two groups."""
    words = [
        word
        for crd in api.custom_definitions()
        for word in {
            crd["spec"]["names"]["plural"],
            crd["spec"]["names"]["singular"],
            *crd["spec"]["names"]["shortNames"],
        }
    ]
    twice = {word for word in words if words.count(word) > 1}
    assert twice == {"inferencepool", "inferencepools"}
