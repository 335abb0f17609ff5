"""Containers of the image without a container engine: its user, environment and command, and the limits and
the read-only file system of the chart, in namespaces of Linux."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ISOLATED = Path(__file__).parent / "isolated.sh"
BASE = ROOT / "deploy" / "kustomize" / "base"
"""The chart as rendered; a test of its own compares them."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of base images."""
DEPENDENCIES = "/opt/dependencies"
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Image:
    """What the last stage of the Dockerfile says about a process."""

    environment: dict[str, str]
    user: str
    directory: str
    entrypoint: list[str]
    health: list[str]
    stop_signal: signal.Signals

    @classmethod
    def of(cls, dockerfile: str) -> Image:
        last = dockerfile.rpartition("\nFROM ")[2].replace("\\\n", " ")
        found = dict(re.findall(r"^(ENV|USER|WORKDIR|ENTRYPOINT|STOPSIGNAL|HEALTHCHECK) (.+)$", last, re.M))
        values = dict(word.split("=", 1) for word in found["ENV"].split())
        return cls(
            environment={name: value.replace("$PATH", PATH) for name, value in values.items()},
            user=found["USER"],
            directory=found["WORKDIR"],
            entrypoint=json.loads(found["ENTRYPOINT"]),
            health=json.loads(found["HEALTHCHECK"].partition(" CMD ")[2]),
            stop_signal=signal.Signals[found["STOPSIGNAL"]],
        )


@dataclass(frozen=True)
class Component:
    """The container of a Deployment of the chart."""

    written_arguments: list[str]
    environment: list[dict[str, Any]]
    security: dict[str, Any]
    """Of the Pod and the container."""
    memory_bytes: int
    files: dict[str, str]
    """Of its ConfigMap."""

    @classmethod
    def of(cls, name: str) -> Component:
        objects = list(yaml.safe_load_all((BASE / f"{name}.yaml").read_text()))
        [pod] = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
        [container] = pod["containers"]
        memory = container["resources"]["limits"]["memory"]
        return cls(
            written_arguments=container["args"],
            environment=container["env"],
            security={**pod["securityContext"], **container["securityContext"]},
            memory_bytes=int(memory[:-2]) * UNITS[memory[-2:]],
            files=next((each["data"] for each in objects if each["kind"] == "ConfigMap"), {}),
        )

    def variables(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Its environment, if the fields of the Pod have these values."""
        made: dict[str, str] = {}
        for each in self.environment:
            source = each.get("valueFrom")
            value = fields[source["fieldRef"]["fieldPath"]] if source else each["value"]
            made[each["name"]] = _resolved(value, made)
        return made

    def arguments(self, fields: Mapping[str, str]) -> list[str]:
        """Those of its command, if the fields of the Pod have these values."""
        variables = self.variables(fields)
        return [_resolved(word, variables) for word in self.written_arguments]


def _resolved(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], text)


class Privileges:
    """How this user makes namespaces, and an ordinary user in them."""

    def __init__(self, user: str) -> None:
        uid, gid = user.split(":")
        drop = "--pdeathsig=KILL --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all"
        self.is_root = os.geteuid() == 0
        if self.is_root:
            self.unshare, self.enter = [], []
            self.become = f"setpriv --reuid={uid} --regid={gid} --clear-groups {drop}"
        else:
            self.unshare, self.enter = ["--user", "--map-root-user"], ["--user", "--preserve-credentials"]
            self.become = f"unshare --user --map-user={uid} --map-group={gid} --keep-caps setpriv {drop}"

    def give(self, directory: Path, user: str) -> None:
        if self.is_root:
            os.chown(directory, *map(int, user.split(":")))


@dataclass
class Container:
    """One that runs; `process` is its parent."""

    process: subprocess.Popen[bytes]
    log: Path
    image: Image
    privileges: Privileges
    environment: Mapping[str, str]

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in it, as `docker exec` and its health checks run one."""
        pid = self.process.pid
        return subprocess.run(
            [
                *("nsenter", *self.privileges.enter, f"--target={pid}", "--mount", "--root"),
                *(f"--pid=/proc/{pid}/ns/pid_for_children", "--"),
                *("env", "-i", f"--chdir={self.image.directory}", f"PATH={PATH}"),
                *(*self.privileges.become.split(), "env", "-i"),
                *(f"{name}={value}" for name, value in self.environment.items()),
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def until_logged(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.output():
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.1)

    def health(self) -> subprocess.CompletedProcess[str]:
        return self.run(*self.image.health)

    def until_healthy(self, ready: str) -> None:
        """Waits for what it logs when it is ready."""
        self.until_logged(ready)
        checked = self.health()
        assert checked.returncode == 0, checked.stderr + self.output()

    def memory_bytes(self) -> int:
        """What all of its processes use, shared pages counted once."""
        rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in _descendants(self.process.pid))
        return sum(
            int(kilobytes) << 10 for each in rollups for kilobytes in re.findall(r"^Pss: +(\d+)", each, re.M)
        )

    def stop(self) -> int:
        """Its exit code after the signal of the image."""
        os.kill(next(_descendants(self.process.pid)), self.image.stop_signal)
        return self.process.wait(PATIENCE_S)


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


Start = Callable[..., Container]


@dataclass
class Machine:
    """Starts containers from the installed wheel."""

    image: Image
    privileges: Privileges
    installed: Path
    """For /opt/headgate."""
    directory: Path
    """For logs, and to mount file systems in."""
    volumes: list[str] = field(default_factory=list)

    def start(
        self,
        *words: str,
        name: str = "container",
        variables: Mapping[str, str] | None = None,
        volumes: Sequence[str] = (),
        memory_bytes: int = 1 << 30,
        installed: str = "ro",
    ) -> Container:
        """`volumes` are SOURCE:TARGET:ro or :rw. `words` begin with the entrypoint."""
        environment = {**self.image.environment, **(variables or {})}
        mount_point, log = self.directory / "root", self.directory / f"{name}.log"
        mount_point.mkdir(exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *("unshare", *self.privileges.unshare, "--mount", "--pid", "--fork", "--kill-child"),
                    *(str(ISOLATED), str(mount_point), self.privileges.become),
                    f"--data={memory_bytes} --nofile=1024:4096 --core=0",
                    *self.volumes,
                    f"{self.installed}:/opt/headgate:{installed}",
                    *volumes,
                    "--",
                    *(f"{name}={value}" for name, value in environment.items()),
                    *words,
                ],
                env={"PATH": PATH, "WORKDIR": self.image.directory},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return Container(process, log, self.image, self.privileges, environment)

    def volume(self, name: str) -> Path:
        """A directory that the user of the image may write to."""
        made = self.directory / name
        made.mkdir()
        self.privileges.give(made, self.image.user)
        return made


@pytest.fixture(scope="session")
def image() -> Image:
    return Image.of((ROOT / "deploy" / "image" / "Dockerfile").read_text())


@pytest.fixture(scope="session")
def privileges(image, tmp_path_factory) -> Privileges:
    """Skips where nobody may make namespaces."""
    if sys.platform != "linux":
        pytest.skip("namespaces of mounts and processes are features of Linux")
    for tool in ("unshare", "nsenter", "setpriv", "prlimit", "pivot_root", "mount"):
        if shutil.which(tool, path=PATH) is None:
            pytest.skip(f"there is no {tool}: install util-linux 2.38 or newer")
    made = Privileges(image.user)
    command = [
        "unshare",
        *made.unshare,
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        *made.become.split(),
        "true",
    ]
    tried = subprocess.run(command, capture_output=True, text=True)
    if tried.returncode:
        who = "root without the right to" if made.is_root else "a user without user namespaces, who cannot"
        pytest.skip(f"this is {who} make namespaces of mounts and processes: {tried.stderr.strip()}")
    return made


@pytest.fixture(scope="session")
def machine(image, privileges, tmp_path_factory) -> Machine:
    """With the wheel of this clone installed in /opt/headgate, by the Python of the tests."""
    directory = tmp_path_factory.mktemp("image")
    wheels, installed = directory / "wheels", directory / "headgate"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-build-isolation", "--no-deps", "-w", wheels, ROOT], check=True)
    [wheel] = wheels.glob("*.whl")
    installed.mkdir()
    privileges.give(installed, image.user)
    packages = sysconfig.get_path("purelib")
    made = Machine(image, privileges, installed, directory)
    made.volumes = [f"{sys.base_prefix}:{sys.base_prefix}:ro", f"{packages}:{DEPENDENCIES}:ro"]
    inside = f"/opt/headgate/lib/python{sysconfig.get_python_version()}"
    steps = f"""
    {sys.base_prefix}/bin/python3 -m venv --without-pip /opt/headgate
    echo {DEPENDENCIES} > {inside}/site-packages/dependencies.pth
    export TMPDIR=/dev/shm PYTHONPATH={DEPENDENCIES} PATH=/opt/headgate/bin:$PATH
    python3 -m pip install -q --no-index --no-deps --no-compile --ignore-installed /wheels/{wheel.name}
    python3 -m compileall -q -j 2 --invalidation-mode unchecked-hash {inside}
    """
    state = f"{made.volume('empty')}:{image.directory}:ro"
    building = made.start("sh", "-ec", steps, installed="rw", volumes=[f"{wheels}:/wheels:ro", state])
    assert building.process.wait(PATIENCE_S) == 0, building.output()
    made.volumes.append(state)
    return made


@pytest.fixture(scope="session")
def gateway() -> Component:
    return Component.of("gateway")


@pytest.fixture(scope="session")
def controller() -> Component:
    return Component.of("controller")


@pytest.fixture
def start(machine) -> Iterator[Start]:
    """Starts containers that end with the test."""
    with contextlib.ExitStack() as running:

        def run(*arguments: str, **how: Any) -> Container:
            container = machine.start(*machine.image.entrypoint, *arguments, **how)
            running.callback(container.process.wait)
            running.callback(container.process.kill)
            return container

        yield run
