"""From a kubeconfig to a request that carries its credentials."""

import json
import stat

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from headgate import api
from headgate.cluster import Client, ConfigurationError


def kubeconfig(tmp_path, url, user, **context):
    path = tmp_path / "kubeconfig"
    config = {
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", **context}}],
    }
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
async def seen(kit):
    """The authorization header and path of each request, beside the server's URL."""
    requests = []

    async def answer(request):
        requests.append((request.headers.get("authorization"), request.url.path))
        return JSONResponse({"metadata": {"name": "a"}})

    async with kit.serving(Starlette(routes=[Route("/{path:path}", answer)])) as url:
        yield url, requests


async def test_the_token_and_the_namespace_of_the_context_are_used(tmp_path, seen):
    """A request without a namespace goes to the context's."""
    url, requests = seen
    async with Client.from_kubeconfig(kubeconfig(tmp_path, url, {"token": "t0"}, namespace="mine")) as client:
        await client.get(api.Pod, "a")
    assert requests == [("Bearer t0", "/api/v1/namespaces/mine/pods/a")]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_exec_plugin_gives_the_token(tmp_path, seen, version):
    """Managed clusters hand out tokens by a program; both versions of its protocol work."""
    url, requests = seen
    plugin = tmp_path / "plugin"
    plugin.write_text('#!/bin/sh\necho \'{"status": {"token": "from-plugin"}}\'\n')
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(plugin)}}
    async with Client.from_kubeconfig(kubeconfig(tmp_path, url, user)) as client:
        await client.get(api.Pod, "a")
    assert requests == [("Bearer from-plugin", "/api/v1/namespaces/default/pods/a")]


async def test_this_machine_is_never_reached_through_a_proxy(tmp_path, seen, monkeypatch):
    """A proxy in the environment is for other hosts."""
    url, requests = seen
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with Client.from_kubeconfig(kubeconfig(tmp_path, url, {"token": "t0"})) as client:
        await client.get(api.Pod, "a")
    assert len(requests) == 1


def test_a_kubeconfig_that_is_missing_or_wrong_is_named(tmp_path):
    """The error says which file, or which context, so that it can be mended."""
    with pytest.raises(ConfigurationError, match="nowhere"):
        Client.from_kubeconfig(tmp_path / "nowhere")
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {})
    with pytest.raises(ConfigurationError, match="there"):
        Client.from_kubeconfig(path, context="there")
    path.write_text("clusters: {")
    with pytest.raises(ConfigurationError, match=str(path)):
        Client.from_kubeconfig(path)
