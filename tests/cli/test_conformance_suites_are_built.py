"""`make conformance-suites` builds the suites and the programs of their Pods, or names what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "control_plane"

GO = """#!/bin/sh
# A Go that downloads and compiles nothing.
case $1-$2 in
mod-download) [ "$3" != -json ] || echo "{\\"Dir\\": \\"$HERE/files\\"}" ;;
mod-edit)
	echo "$@" >> "$HERE/edits"
	patch=2
	[ ! -f pkg/plugins/register.go ] || patch=3
	echo '{"Go": "1.26.0", "Require": [{"Path": "k8s.io/api", "Version": "v0.35.'$patch'"},
		{"Path": "sigs.k8s.io/gateway-api-inference-extension", "Version": "v1.4.0"}]}' ;;
env-*) echo "$HERE" ;;
build-*|test-*)
	echo "$GOFLAGS" >> "$HERE/flags"
	[ ! -f suite_test.go ] || cp suite_test.go go.mod "$HERE/"
	[ ! -d pkg ] || cp -r pkg "$HERE/"
	while [ "$1" != -o ]; do shift; done
	touch "$2" && chmod +x "$2" ;;
esac
"""
DIAL = """package net
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (Listener, error) {
	addrs, err := resolve(address)
}
func (lc *ListenConfig) ListenPacket(ctx context.Context, network, address string) (PacketConn, error) {
	addrs, err := resolve(address)
}
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """The exit status, standard output and standard error of the tool, on a machine with the Go above."""
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    for directory in ("config/crd/standard", "config/crd/bases"):
        (tmp_path / "files" / directory).mkdir(parents=True)
        (tmp_path / "files" / directory / "kind.yaml").write_text("kind: CustomResourceDefinition\n")
    (tmp_path / "src" / "net").mkdir(parents=True)
    (tmp_path / "src" / "net" / "dial.go").write_text(DIAL)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "HERE": str(tmp_path)}
    environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def words(*given: str, **more: str) -> tuple[int, str, str]:
        command = [sys.executable, str(TOOL), *given]
        done = subprocess.run(command, env={**environ, **more}, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    return words


def test_the_suites_are_built_once_with_their_definitions(run, tmp_path):
    """A second run finds what is there, and so does `path-suite`."""
    status, printed, errors = run("build-suites", "gateway-suites", GOFLAGS="-p=1")
    assert (status, errors.count("Compiled")) == (0, 4), errors
    directory = Path(printed.strip())
    programs = ("echo-basic", "lwepp", "gateway-api.test", "inference-extension.test")
    definitions = ("gateway-api-definitions", "inference-extension-definitions")
    assert {each.name for each in directory.iterdir()} == {*programs, *definitions}
    assert (directory / definitions[0] / "kind.yaml").exists()
    assert (
        "sigs.k8s.io/gateway-api-inference-extension/conformance" in (tmp_path / "suite_test.go").read_text()
    )
    assert "require sigs.k8s.io/gateway-api v1." in (tmp_path / "go.mod").read_text()
    builds = (tmp_path / "flags").read_text()
    assert run("build-suites", "gateway-suites") == (0, printed, "")
    assert (tmp_path / "flags").read_text() == builds
    assert run("path-suite", "gateway-suites")[1] == printed
    assert run("path-suite", "epp") == (0, "\n", "")


def test_programs_are_compiled_to_listen_at_the_address_of_their_pod(run, tmp_path):
    """The overlay replaces two functions of package net; the user's flags stay."""
    run("build-suites", "epp", GOFLAGS="-p=1")
    flags = (tmp_path / "flags").read_text().split()
    [overlay] = [flag.removeprefix("-overlay=") for flag in flags if flag.startswith("-overlay=")]
    assert "-p=1" in flags
    replaced = json.loads(Path(overlay).read_text())["Replace"]
    assert {*replaced} == {str(tmp_path / "src/net/dial.go"), str(tmp_path / "src/net/pod_address.go")}
    dial = Path(replaced[str(tmp_path / "src/net/dial.go")]).read_text()
    assert dial.count("address = podAddress(network, address)\n\taddrs, err") == 2
    assert "POD_IP" in Path(replaced[str(tmp_path / "src/net/pod_address.go")]).read_text()


def test_plugins_whose_library_is_not_served_are_left_out(run, tmp_path):
    """Of llm-d's picker, with the lines that register them. Its own configurations are kept beside it."""
    registered = ["filter.ByLabel", "scorer.PrecisePrefixCache", "multi.ContextLength", "scorer.LoadAware"]
    sources = ("scorer/precise_prefix_cache.go", "scorer/load_aware.go", "preparedata/a.go", "multi/b.go")
    texts = {f"pkg/plugins/{name}": "" for name in sources} | {"go.mod": "", "go.sum": "", "cmd/epp/a.go": ""}
    texts |= {"pkg/plugins/register.go": "\n".join(registered), "deploy/config/load.yaml": "plugins: []"}
    for name, text in texts.items():
        file = tmp_path / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o444)
    status, printed, errors = run("build-suites", "llm-d")
    assert status == 0, errors
    made = Path(printed.strip())
    assert {each.name for each in made.iterdir()} == {"llm-d-inference-scheduler", "configurations"}
    assert (made / "configurations" / "load.yaml").exists()
    left = {each.name for each in (tmp_path / "pkg").rglob("*.go")}
    assert left == {"register.go", "load_aware.go"}
    assert (tmp_path / "pkg/plugins/register.go").read_text().split() == [registered[0], registered[3]]
    edits = (tmp_path / "edits").read_text()
    assert "-droprequire=github.com/llm-d/llm-d-kv-cache\n" in edits
    assert "-require=k8s.io/api@v0.35.2 " in edits  # as the picker that it extends


def test_another_go_library_and_an_unknown_name_are_explained(run, tmp_path):
    """Nothing is compiled that would listen elsewhere."""
    (tmp_path / "src" / "net" / "dial.go").write_text("package net\n")
    status, _, errors = run("build-suites", "epp")
    assert status == 2
    assert "0 functions listen, not 2" in errors
    status, _, errors = run("build-suites", "nothing")
    assert status == 2
    assert "'nothing' is none of gateway-suites, epp" in errors


def test_a_directory_that_is_named_is_used(run, tmp_path):
    """Only if it is complete."""
    made = Path(run("build-suites", "epp")[1].strip())
    assert run("path-suite", "epp", HEADGATE_TEST_SUITES=str(made.parent))[1].strip() == str(made)
    assert run("path-suite", "epp", HEADGATE_TEST_SUITES=str(tmp_path))[1].strip() == ""
