"""Models and what scales them, as the dashboard reads them from a real API server."""

import pytest

from headgate.workers import dashboard_objects

MODEL = {
    "apiVersion": "registry.volcano.sh/v1alpha1",
    "kind": "Model",
    "metadata": {"name": "seen", "namespace": "default"},
    "spec": {
        "backends": [
            {
                "name": "b",
                "type": "vLLM",
                "modelURI": "hf://some/model",
                "cacheURI": "hostpath:///tmp/cache",
                "minReplicas": 1,
                "maxReplicas": 1,
                "workers": [{"type": "server", "image": "engine", "replicas": 1, "pods": 1}],
            }
        ]
    },
}


@pytest.mark.parametrize("namespaces", [[], ["default"]])
async def test_models_are_read(kubeconfig, client, namespaces):
    """Of all namespaces, or of those that the gateway watches."""
    await client.apply_manifest(MODEL, field_manager="test")
    found = await dashboard_objects.read(str(kubeconfig), namespaces)
    assert [model.metadata.name for model in found.models] == ["seen"]
    assert not found.missing
    assert (await dashboard_objects.read(str(kubeconfig), ["other"])).models == []


async def test_an_unreachable_server_is_told(tmp_path):
    """The page is shown all the same."""
    file = tmp_path / "kubeconfig"
    found = await dashboard_objects.read(str(file), [])
    assert len(found.missing) == 1
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    found = await dashboard_objects.read(str(file), [])
    assert len(found.missing) == 1
    assert "ConnectError" in found.missing[0]
