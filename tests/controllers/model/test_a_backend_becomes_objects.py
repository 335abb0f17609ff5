"""A backend becomes a workload, a ModelServer and a target of the Model's route."""

import hashlib

from headgate import api


def test_names_are_those_of_model_and_backend(made, backend):
    """As in Kthena: one workload and server for each backend, one route for the Model."""
    children = made(backend("b")).children
    assert [(child.kind, child.name) for child in children] == [
        (api.Deployment, "m-b"),
        (api.ModelServer, "m-b"),
        (api.ModelRoute, "m"),
    ]


def test_weights_are_where_the_uri_says(made, backend):
    """The directory is named after the hash of the source, below the cache."""
    children = made(backend(modelURI="hf://x", cacheURI="hostpath:///cache")).children
    pod = children[0].manifest["spec"]["template"]["spec"]
    directory = f"/cache/{hashlib.md5(b'hf://x').hexdigest()}"
    engine = pod["containers"][0]
    assert engine["args"][engine["args"].index("--model") + 1] == directory
    assert {"name": "b-weights", "hostPath": {"path": "/cache", "type": "DirectoryOrCreate"}} in pod[
        "volumes"
    ]


def test_a_server_selects_the_pods_of_its_backend(made, backend):
    """Not those of other backends of the Model."""
    children = made(backend("a"), backend("b")).children
    servers = [child.manifest for child in children if child.kind is api.ModelServer]
    workloads = [child.manifest for child in children if child.kind is api.Deployment]
    for server in servers:
        wanted = server["spec"]["workloadSelector"]["matchLabels"].items()
        selected = [w for w in workloads if wanted <= w["spec"]["template"]["metadata"]["labels"].items()]
        assert [workload["metadata"]["name"] for workload in selected] == [server["metadata"]["name"]]
