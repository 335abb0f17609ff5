"""An object that a newer definition rejects can still be updated, as long as its invalid field stays."""

from __future__ import annotations

import json
import subprocess

import pytest

FIELD = "openAPIV3Schema.properties.spec.properties.backends.items.properties.workers.items.properties.image"
BACKEND = {
    "name": "a",
    "type": "vLLM",
    "modelURI": "hf://m",
    "minReplicas": 1,
    "maxReplicas": 1,
    "workers": [{"type": "server", "image": "a b"}],
}
MODEL = {
    "apiVersion": "registry.volcano.sh/v1alpha1",
    "kind": "Model",
    "metadata": {"name": "old"},
    "spec": {"owner": "me", "backends": [BACKEND]},
}


@pytest.fixture
def of_old(cluster, namespace, eventually):
    """The name of a Model with a space in its image, from the time of a definition without that rule."""
    name = f"models-{namespace}"
    found = cluster.get("crd", "models.registry.volcano.sh")
    without = _copied(found)
    _image(without).pop("x-kubernetes-validations")
    cluster.kubectl("replace", "-f", "-", text=json.dumps(without))
    obj = json.dumps(MODEL | {"metadata": {"name": name}})
    # The server follows its definitions with a delay.
    eventually(lambda: _try(cluster, "create", "-n", namespace, "-f", "-", text=obj))
    cluster.kubectl("replace", "-f", "-", text=json.dumps(_copied(found)))
    other = json.dumps(MODEL | {"metadata": {"name": "other"}})
    eventually(
        lambda: not _try(cluster, "create", "--dry-run=server", "-n", namespace, "-f", "-", text=other)
    )
    return name


def test_an_invalid_object_can_be_changed_elsewhere(cluster, namespace, of_old):
    """Its labels, and another field of its spec; but the field itself only to a valid value."""
    words = ["model", of_old, "-n", namespace]
    cluster.kubectl("label", *words, "a=b")
    cluster.kubectl("patch", *words, "--type=merge", "-p", '{"spec": {"owner": "you"}}')
    place = "/spec/backends/0/workers/0/image"
    for image, fails in (("b c", True), ("b", False)):
        change = json.dumps([{"op": "replace", "path": place, "value": image}])
        told = cluster.kubectl("patch", *words, "--type=json", "-p", change, fails=fails)
        assert ("must not have spaces" in told) == fails


def _copied(definition):
    copied = json.loads(json.dumps(definition))
    copied["metadata"].pop("resourceVersion", None)
    copied["metadata"].pop("managedFields", None)
    return copied


def _image(definition):
    place = definition["spec"]["versions"][0]["schema"]
    for step in FIELD.split("."):
        place = place[step]
    return place


def _try(cluster, *words, text):
    flags = ["--kubeconfig", cluster.kubeconfig, "--cache-dir", cluster.state / "kubectl-cache"]
    done = subprocess.run(
        [cluster.programs / "kubectl", *flags, *words], input=text, capture_output=True, text=True
    )
    return done.returncode == 0
