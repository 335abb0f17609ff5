"""Real kubectl, in the versions that are found, against the API server under test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

BINARIES_VARIABLE = "HEADGATE_KUBECTL"
MATRIX_VARIABLE = "HEADGATE_TEST_KUBECTL_MATRIX"
OLDEST = (1, 29)
HOW_TO_GET_IT = (
    "these tests need kubectl 1.29 or newer. Install it (https://kubernetes.io/docs/tasks/tools/, or your "
    f"system's package manager), or name one or more in {BINARIES_VARIABLE} (separated by '{os.pathsep}')."
)
TIMEOUT_S = 120
ENVIRONMENT = os.environ | {"GOGC": "off"}
"""kubectl without garbage collection, which is a third of the CPU time of a command that ends at once."""


def binaries() -> dict[str, str]:
    """kubectl binaries by version, oldest first: kubectl.MAJOR.MINOR on PATH and beside kubectl, and those
    that the environment names. If there are none of those, kubectl itself."""
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    if found := shutil.which("kubectl"):
        places.append(Path(found).resolve().parent)
    candidates = [file for place in places for file in sorted(place.glob("kubectl.[0-9]*"))]
    candidates += [Path(name) for name in os.environ.get(BINARIES_VARIABLE, "").split(os.pathsep) if name]
    if not candidates and found:
        candidates = [Path(found)]
    by_version = {version: str(file) for file in candidates if (version := _version(file)) >= OLDEST}
    return {f"{major}.{minor}": by_version[major, minor] for major, minor in sorted(by_version)}


def _version(binary: Path) -> tuple[int, int]:
    """Major and minor: from the name kubectl.MAJOR.MINOR, else from what the binary says."""
    if named := re.fullmatch(r"kubectl\.(\d+)\.(\d+)", binary.name):
        return int(named[1]), int(named[2])
    said = subprocess.run(
        [binary, "version", "--client", "-o", "json"], capture_output=True, timeout=TIMEOUT_S, check=True
    )
    version = msgspec.json.decode(said.stdout)["clientVersion"]
    return int(version["major"]), int(version["minor"].rstrip("+"))


BINARIES = binaries()
NEWEST = list(BINARIES)[-1] if BINARIES else "any"


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@dataclass
class Kubectl:
    """One kubectl binary with a namespace of its own."""

    binary: str
    kubeconfig: Path
    cache: Path
    namespace: str
    minor: int
    background: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, *arguments: str) -> list[str]:
        flags = ["--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.cache)]
        return [self.binary, *flags, "--namespace", self.namespace, *arguments]

    def run(self, *arguments: str, stdin: Any = None, **environment: str) -> Result:
        """Runs a command whatever becomes of it; `stdin` is text, or objects to send as YAML."""
        text = stdin if stdin is None or isinstance(stdin, str) else manifest(stdin)
        done = subprocess.run(
            self.command(*arguments),
            input=text,
            env=ENVIRONMENT | environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Result(done.returncode, self._told(done.stdout), self._told(done.stderr))

    def _told(self, text: str) -> str:
        """Output as it is the same everywhere: kubectl 1.34 and later say of where they delete."""
        return text.replace(f" from {self.namespace} namespace", "").replace(self.namespace, "NAMESPACE")

    def __call__(self, *arguments: str, stdin: Any = None, **environment: str) -> str:
        """The output of a command that must succeed and warn of nothing."""
        done = self.run(*arguments, stdin=stdin, **environment)
        assert (done.code, done.err) == (0, ""), f"kubectl {' '.join(arguments)}: {done.err}"
        return done.out

    def refused(self, *arguments: str, stdin: Any = None) -> str:
        """What a command prints on standard error that must fail with code 1 and print nothing else."""
        done = self.run(*arguments, stdin=stdin)
        assert (done.code, done.out) == (1, ""), f"kubectl {' '.join(arguments)}: {done.out}"
        return done.err

    def get(self, *arguments: str) -> Any:
        """An object, or a list of objects, decoded."""
        return msgspec.json.decode(self("get", *arguments, "-o", "json"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on; it is stopped after the test."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.background.append(process)
        return process

    def close(self) -> None:
        for process in self.background:
            process.kill()
            process.communicate()


def manifest(objects: Any) -> str:
    return yaml.safe_dump_all(objects if isinstance(objects, list) else [objects])


@pytest.fixture(scope="session")
def discovery_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of discovery for all commands, as a user has it."""
    return tmp_path_factory.mktemp("discovery")


def _kubectl(version: str, server: Any, cache: Path, namespace: str) -> Kubectl:
    if version not in BINARIES:
        pytest.fail(f"kubectl {version} is not here: {HOW_TO_GET_IT}")
    minor = int(version.partition(".")[2])
    return Kubectl(BINARIES[version], server.kubeconfig, cache / version, namespace, minor)


@pytest.fixture(params=list(BINARIES) if os.environ.get(MATRIX_VARIABLE) else [NEWEST])
def kubectl(
    request: pytest.FixtureRequest, server: Any, discovery_cache: Path, namespace: str
) -> Iterator[Kubectl]:
    """The newest kubectl, or each in turn if HEADGATE_TEST_KUBECTL_MATRIX is set."""
    made = _kubectl(request.param, server, discovery_cache, namespace)
    yield made
    made.close()


OLDER = list(BINARIES)[:-1] or [NEWEST]
"""The newest has the whole suite; that one if there is no other."""
if not os.environ.get(MATRIX_VARIABLE):
    OLDER = OLDER[:1]


@pytest.fixture(params=list(dict.fromkeys([*OLDER, NEWEST])))
def every_kubectl(
    request: pytest.FixtureRequest, server: Any, discovery_cache: Path, namespace: str
) -> Iterator[Kubectl]:
    """The oldest kubectl and the newest, or each in turn if HEADGATE_TEST_KUBECTL_MATRIX is set."""
    made = _kubectl(request.param, server, discovery_cache, namespace)
    yield made
    made.close()


@pytest.fixture(params=OLDER)
def older_kubectl(
    request: pytest.FixtureRequest, server: Any, discovery_cache: Path, namespace: str
) -> Iterator[Kubectl]:
    """The oldest kubectl, or each but the newest if HEADGATE_TEST_KUBECTL_MATRIX is set."""
    made = _kubectl(request.param, server, discovery_cache, namespace)
    yield made
    made.close()


@pytest.fixture
def model_route() -> Any:
    """A ModelRoute `chat`, all of which goes to the ModelServer `chat`."""
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "chat"},
        "spec": {
            "modelName": "chat",
            "rules": [{"name": "all", "targetModels": [{"modelServerName": "chat", "weight": 60}]}],
        },
    }


@pytest.fixture
def model_server() -> Any:
    """The ModelServer `chat`."""
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "chat"},
        "spec": {
            "inferenceEngine": "vLLM",
            "model": "m",
            "workloadSelector": {"matchLabels": {"app": "chat"}},
            "workloadPort": {"port": 8000},
        },
    }


@pytest.fixture
def deployment() -> Any:
    """A Deployment `chat` without replicas."""
    labels = {"app": "chat"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "engine", "image": "sim:1"}]},
            },
        },
    }
