"""With --host-path-root, a Model mounts no other directory of a node."""

import goldens
import pytest
from click.testing import CliRunner

from headgate.cli.controller import controller
from headgate.controllers.model import ModelSettings, Observed, children_of

SETTINGS = ModelSettings(host_path_roots=("/var/cache/models", "/data/"))


def made(backend, uri, settings=SETTINGS):
    manifest = {"metadata": {"name": "m"}, "spec": {"backends": [backend(cacheURI=uri)]}}
    return children_of(goldens.stored(manifest), settings, Observed())


@pytest.mark.parametrize(
    "path", ["/proc/self/root", "/var/lib/kubelet", "/var/cache/models-of-others", "/var/cache"]
)
def test_others_are_a_problem(backend, path):
    """Nothing is made; without the option, all are allowed."""
    children = made(backend, f"hostpath://{path}")
    (problem,) = children.problems
    assert problem.field == "spec.backends[0].cacheURI"
    assert f"{path}' is not below /var/cache/models or /data/" in problem.message
    assert children.unbuilt == {"b"}
    assert made(backend, f"hostpath://{path}", ModelSettings()).problems == ()


@pytest.mark.parametrize(
    "uri", ["hostpath:///var/cache/models", "hostpath://var/cache/models//x", "hostpath:///data/x", "pvc://c"]
)
def test_those_below_are_mounted(backend, uri):
    assert made(backend, uri).problems == ()


@pytest.mark.parametrize("path", ["data", "/data/../etc"])
def test_the_option_takes_absolute_paths(path):
    run = CliRunner().invoke(controller, ["--host-path-root", path])
    assert (run.exit_code, "is not the absolute path" in run.output) == (2, True)
