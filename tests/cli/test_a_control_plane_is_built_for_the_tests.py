"""`make control-plane` builds all programs of a control plane or none, and explains failures."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "control_plane"
NAMES = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd"}

GO = """#!/bin/sh
# A Go that downloads and compiles nothing: `go build` fails as a test says, or makes the programs.
case $1-$2 in
mod-download) [ "$3" != -json ] || echo "{\\"Dir\\": \\"$HERE/files\\"}" ;;
mod-edit) echo '{"Go": "1.26.0", "Require": [{"Path": "k8s.io/client-go", "Version": "v0.35.1"}], "Replace": [
	{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
	{"Old": {"Path": "k8s.io/other"}, "New": {"Path": "k8s.io/fork", "Version": "v1.0.0"}}]}' ;;
env-*) echo "$HERE" ;;
list-*) cp go.mod "$HERE/$(basename "$PWD").mod" ;;
build-*)
	echo "$PWD" >> "$HERE/builds"
	echo "$@" >> "$HERE/flags"
	[ ! -d pkg ] || cp -r pkg "$HERE/"
	[ -z "$FAILURE" ] || { echo "$FAILURE" >&2; exit 1; }
	while [ -f "$HERE/hold" ]; do sleep 0.05; done
	while [ "$1" != -o ]; do shift; done
	into=$2
	shift 2
	for package; do
		[ -d "$into" ] && program=$into/${package##*/} || program=$into
		printf '#!/bin/sh\\necho Kubernetes v1.36.3 or LWS v0.8.0 or metrics-service\\n' > "$program"
		chmod +x "$program"
	done ;;
esac
"""

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Command]:
    """Starts the tool on a machine whose Go is the one above."""
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, **environ: str) -> subprocess.Popen[str]:
        base = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "HERE": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, TOOL, *words],
            env={**base, "XDG_CACHE_HOME": str(tmp_path / "cache"), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def done(start: Command) -> Callable[..., tuple[int, str, str]]:
    """The exit status, standard output and standard error of the tool."""

    def run(*words: str, **environ: str) -> tuple[int, str, str]:
        process = start(*words, **environ)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    return run


def built(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "headgate" / "control-plane" / "1.36.3"


def builds(tmp_path: Path) -> int:
    """How often something was compiled: twice for one control plane."""
    file = tmp_path / "builds"
    return len(file.read_text().splitlines()) if file.exists() else 0


def until(holds: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < 60
        time.sleep(0.02)


def test_all_programs_are_built_once(done, tmp_path):
    """The second call finds them, without Go."""
    status, output, errors = done("build")
    assert status == 0, errors
    assert output == f"The control plane is in {built(tmp_path) / 'bin'}\n"
    assert {path.name for path in (built(tmp_path) / "bin").iterdir()} == NAMES
    assert done("build", PATH="/nowhere") == (0, output, "")
    assert builds(tmp_path) == 2
    assert done("path")[:2] == (0, f"{built(tmp_path) / 'bin'}\n")


def test_staging_modules_are_replaced_by_their_published_versions(done, tmp_path):
    done("build")
    lines = (tmp_path / "kubernetes.mod").read_text().splitlines()
    assert lines[1:] == [
        "go 1.26.0",
        "require k8s.io/kubernetes v1.36.3",
        "replace k8s.io/api => k8s.io/api v0.36.3",
    ]


def test_a_build_that_is_killed_leaves_nothing_that_is_used(start, done, tmp_path):
    """The next build removes its files and starts again."""
    (tmp_path / "hold").touch()
    process = start("build")
    until(lambda: builds(tmp_path) == 1)
    process.kill()
    process.wait()
    assert done("path")[0] == 2
    [leftover] = built(tmp_path).parent.glob("1.36.3.new.*")
    (tmp_path / "hold").unlink()
    assert done("build")[0] == 0
    assert not leftover.exists()
    assert sorted(path.name for path in built(tmp_path).parent.iterdir()) == ["1.36.3", "1.36.3.lock"]


def test_of_two_builds_at_once_one_waits(start, tmp_path):
    (tmp_path / "hold").touch()
    first = start("build")
    until(lambda: builds(tmp_path) == 1)
    second = start("build")
    assert second.stderr is not None
    assert "Waiting for another process" in second.stderr.readline()
    (tmp_path / "hold").unlink()
    outputs = {process.communicate(timeout=60)[0] for process in (first, second)}
    assert outputs == {f"The control plane is in {built(tmp_path) / 'bin'}\n"}
    assert builds(tmp_path) == 2


@pytest.mark.parametrize(
    ("failure", "explained"),
    [
        (
            "go: go.mod requires go >= 1.99 (running go 1.26.8; GOTOOLCHAIN=local)",
            "1.99 is needed, and 1.26.8",
        ),
        ("write /tmp/x.a: no space left on device", "The disk is full"),
        ('Get "https://x": dial tcp: lookup x: no such host', "cannot reach the Go module proxy"),
        ("reading https://x: 404 Not Found", "does not have this version"),
        ("x: /compile: signal: killed", "memory"),
        ("x.go:1: syntax error", "failed with status 1:\nx.go:1: syntax error"),
    ],
)
def test_failures_are_explained(done, tmp_path, failure, explained):
    status, output, errors = done("build", FAILURE=failure)
    assert (status, output) == (2, "")
    assert explained in errors
    assert "Traceback" not in errors
    assert not built(tmp_path).exists()


def test_without_go_the_message_says_what_to_do(done):
    status, _, errors = done("build", PATH="/nowhere")
    assert status == 2
    assert "Install Go" in errors
    assert "HEADGATE_CONTROL_PLANE=DIR" in errors


def test_programs_of_a_directory_or_the_path_are_used(done, tmp_path):
    """Those of the path only if they are the version that is asked for."""
    done("build")
    own = built(tmp_path).rename(tmp_path / "own") / "bin"
    assert done("path", HEADGATE_CONTROL_PLANE=str(own))[:2] == (0, f"{own}\n")
    path = f"{own}:/usr/bin:/bin"
    assert done("path", PATH=path)[:2] == (0, f"{own}\n")
    assert done("path", PATH=path, HEADGATE_CONTROL_PLANE_VERSION="newest")[:2] == (0, f"{own}\n")
    assert done("path", PATH=path, HEADGATE_CONTROL_PLANE_VERSION="older")[0] == 2
    (own / "etcd").unlink()
    status, _, errors = done("path", HEADGATE_CONTROL_PLANE=str(own))
    assert (status, errors) == (2, f"HEADGATE_CONTROL_PLANE={own} has no etcd\n")


def test_prometheus_and_its_adapter_are_built_once(done, tmp_path):
    """Unless they are on the path, in the directory that the environment names, or can be had from Debian."""
    (tmp_path / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    home = tmp_path / "cache" / "headgate" / "monitoring"
    assert done("path-monitoring") == (0, "\n", "")
    status, output, errors = done("build-monitoring")
    assert status == 0, errors
    assert "It is built instead: the lists of packages cannot be fetched" in errors
    names = ["prometheus-0.316.0/prometheus", "prometheus-0.316.0/promtool"]
    paths = [home / name for name in (*names, "prometheus-adapter-0.12.0/prometheus-adapter")]
    assert output == "".join(f"{path}\n" for path in paths)
    assert done("build-monitoring", PATH="/nowhere") == (0, output, "")
    assert done("path-monitoring", HEADGATE_MONITORING=str(paths[0].parent)) == (
        0,
        f"{paths[0]}\n{paths[1]}\n",
        "",
    )


def test_both_versions_of_helm_are_built_once(done, tmp_path):
    """Beside the control plane. Helm 3 assumes the version of Kubernetes whose client it has."""
    home = tmp_path / "cache" / "headgate" / "helm"
    assert done("path-helm") == (0, "\n", "")
    status, output, errors = done("build-helm")
    assert status == 0, errors
    paths = [home / version / "helm" for version in ("3.22.0", "4.3.1")]
    assert output == f"Helm is in {paths[0]}, {paths[1]}\n"
    assert done("build-helm", PATH="/nowhere") == (0, output, "")
    assert builds(tmp_path) == 2
    three, four = (tmp_path / "flags").read_text().splitlines()
    assert "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=35 " in three
    assert "-X helm.sh/helm/v4/internal/version.version=v4.3.1 " in four
    assert sorted(path.name for path in home.iterdir()) == ["3.22.0", "4.3.1"]
    assert done("path-helm") == (0, f"{paths[0]}\n{paths[1]}\n", "")
    assert done("path-helm", HEADGATE_HELM=str(paths[1])) == (0, f"{paths[1]}\n", "")
    status, _, errors = done("path-helm", HEADGATE_HELM="/nowhere")
    assert (status, errors) == (2, "HEADGATE_HELM=/nowhere: /nowhere cannot be executed\n")


def test_lws_is_built_with_the_files_of_its_module(done, tmp_path):
    """The program, its definitions and its webhooks are kept together."""
    home = tmp_path / "cache" / "headgate" / "lws" / "0.8.0"
    sources = {
        "definitions.yaml": "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        "webhooks.yaml": "config/webhook/manifests.yaml",
    }
    for source in sources.values():
        file = tmp_path / "files" / source
        file.parent.mkdir(parents=True)
        file.write_text(source)
    assert done("lws", str(tmp_path))[0] == 2
    status, output, errors = done("build-lws")
    assert (status, output) == (0, f"LWS is in {home}\n"), errors
    assert done("build-lws", PATH="/nowhere") == (0, output, "")
    assert builds(tmp_path) == 1
    assert sorted(path.name for path in home.iterdir()) == ["definitions.yaml", "lws", "webhooks.yaml"]
    assert {name: (home / name).read_text() for name in sources} == sources
    (home / "webhooks.yaml").unlink()
    status, _, errors = done("build-lws", HEADGATE_LWS=str(home))
    assert (status, errors) == (2, f"HEADGATE_LWS={home} has no webhooks.yaml\n")


CHOICE = """package scaling
	switch triggerType {
	case "mongodb":
		return scalers.NewMongoDBScaler(config)
	case "prometheus":
		return scalers.NewPrometheusScaler(config)
	default:
		return nil
	}
"""


def test_keda_is_built_once_with_the_trigger_that_is_tested(start, done, tmp_path):
    """A second build waits for the first one. The definitions are kept beside the programs."""
    home = tmp_path / "cache" / "headgate" / "keda" / "2.21.0"
    scalers = ("scaler.go", "prometheus_scaler.go", "azure_queue_scaler.go", "mongo_scaler.go")
    texts = {f"pkg/scalers/{name}": "" for name in scalers} | {"pkg/scaling/scalers_builder.go": CHOICE}
    texts |= {"go.mod": "", "go.sum": "", "cmd/operator/main.go": "", "config/crd/bases/keda.yaml": "kinds"}
    for name, text in texts.items():
        file = tmp_path / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o444)
    assert done("path-keda") == (0, "\n", "")
    (tmp_path / "hold").touch()
    both = [start("build-keda") for _ in range(2)]
    until(lambda: builds(tmp_path) == 1)
    (tmp_path / "hold").unlink()
    for process in both:
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (0, f"KEDA is in {home}\n"), errors
    assert builds(tmp_path) == 1
    assert done("path-keda", PATH="/nowhere") == (0, f"{home}\n", "")
    assert sorted(path.name for path in home.iterdir()) == ["definitions", "keda", "keda-adapter"]
    assert (home / "definitions" / "keda.yaml").read_text() == "kinds"
    compiled = tmp_path / "pkg"
    assert {path.name for path in (compiled / "scalers").iterdir()} == {*scalers[:3]}
    mongo = '	case "mongodb":\n		return scalers.NewMongoDBScaler(config)\n'
    assert (compiled / "scaling" / "scalers_builder.go").read_text() == CHOICE.replace(mongo, "")
    (home / "keda").unlink()
    status, _, errors = done("build-keda", HEADGATE_KEDA=str(home))
    assert (status, errors) == (2, f"HEADGATE_KEDA={home} has no keda\n")


def test_an_unknown_version_is_named(done):
    status, _, errors = done("build", HEADGATE_CONTROL_PLANE_VERSION="latest")
    assert status == 2
    assert "HEADGATE_CONTROL_PLANE_VERSION=latest" in errors


@pytest.fixture
def make_test(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """The exit status and the lines of `make test-all`, which only prints the targets that it would make."""

    def run(**environ: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            ["make", "-s", "test-all", "MAKE=echo", f"PYTHON={sys.executable}"],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache"), **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout.splitlines()

    return run


def test_make_test_reports_left_out_tests_first_and_last(make_test):
    status, [first, rooms, whole, last] = make_test()
    assert status == 0
    assert "are left out: it is not built. `make control-plane` builds it" in first
    assert rooms.endswith(" test")
    assert whole.endswith("-m whole")
    assert last == first


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")
def test_make_test_includes_the_tests_once_the_programs_are_built(done, make_test):
    done("build")
    status, [first, *made, last] = make_test()
    assert status == 0
    assert last == first
    if "this system does not let you create a network namespace" in first:
        assert [line.split()[1] for line in made] == ["test", "unit"]
    else:
        assert "are included (built, Kubernetes 1.36.3), without those of the chart: `make helm`" in first
        assert [line.split()[1] for line in made] == ["test", "unit", "test-cluster"]


def test_make_test_fails_if_the_named_directory_lacks_programs(make_test, tmp_path):
    status, lines = make_test(HEADGATE_CONTROL_PLANE=str(tmp_path))
    assert (status, lines) == (2, [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")
def test_a_command_runs_in_a_namespace_where_it_can(done):
    """With the exit status of the command, and addresses of Pods to listen on."""
    code = (
        "import os, socket\n"
        "socket.create_server(('10.244.7.9', 0)).close()\n"
        "print(os.environ['HEADGATE_TEST_POD_RANGE'])"
    )
    status, output, errors = done("run", sys.executable, "-c", code)
    if "does not let you create a network namespace" in errors:
        pytest.skip("this system allows no network namespace")
    assert (status, output, errors) == (0, "10.244.0.0/16\n", "")
    assert done("run", "sh", "-c", "exit 7")[0] == 7
