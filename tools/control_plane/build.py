"""Builds the programs with Go from the modules that Kubernetes and etcd publish.

Kubernetes' own module replaces some modules by directories of its repository ("staging"). These modules
are also published, as v0.MINOR.PATCH, so a generated go.mod replaces each of them by that version.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from programs import KUBERNETES, NAMES, ControlPlaneError, etcd_version, minor_of

MODULE = "k8s.io/kubernetes"
ETCD = "go.etcd.io/etcd/server/v3"
ETCD_MAIN = f"""package main

import (
	"os"

	"{ETCD}/etcdmain"
)

func main() {{ etcdmain.Main(os.Args) }}
"""
REPORT_EVERY_S = 10.0
LAST_LINES = 15
MB = 1_000_000

_began = time.monotonic()


def report(words: str) -> None:
    """One line of progress, with the minutes and seconds since the start."""
    minutes, seconds = divmod(int(time.monotonic() - _began), 60)
    sys.stderr.write(f"[{minutes:2d}:{seconds:02d}] {words}\n")
    sys.stderr.flush()


def build(version: str, home: Path) -> Path:
    """Builds the programs of one version of Kubernetes, unless they are there; returns their directory.

    The directory appears under its name only when it is complete. A second build of the same version waits
    for the first one.
    """
    done = home / version
    with _disk_full_explained(home):
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / f"{version}.lock", f"Kubernetes {version}"):
            if not (done / "bin").exists():
                _build_anew(version, home, done)
    return done / "bin"


def _build_anew(version: str, home: Path, done: Path) -> None:
    for leftover in home.glob(f"{version}.new.*"):  # of killed builds: the lock excludes others
        shutil.rmtree(leftover, ignore_errors=True)
    go = Go(home)
    report(f"Building Kubernetes {version} and etcd {etcd_version(version)} into {done}")
    report("This takes about six minutes on two cores, and about 400 MB there; Go's caches take 4 GB more.")
    with tempfile.TemporaryDirectory(prefix=f"{version}.new.", dir=home) as name:
        work = Path(name)
        made = work / "made"
        (made / "bin").mkdir(parents=True)
        _write_kubernetes_module(go, work / "kubernetes", version)
        go.build(
            work / "kubernetes",
            made / "bin",
            [f"{MODULE}/cmd/{program}" for program in KUBERNETES],
            _version_flags(version),
        )
        _write_etcd_module(go, work / "etcd", etcd_version(version))
        go.build(work / "etcd", made / "bin" / "etcd", ["."], "-s -w")
        for program in NAMES:
            _try_program(made / "bin" / program)
        made.rename(done)
    size = sum(path.stat().st_size for path in (done / "bin").iterdir())
    report(f"Built {', '.join(NAMES)} in {done / 'bin'} ({size / MB:.0f} MB)")


def _write_kubernetes_module(go: Go, directory: Path, version: str) -> None:
    directory.mkdir()
    published = go.module(MODULE, version)
    staged = sorted({each["Old"]["Path"] for each in published["Replace"] or () if _is_staged(each)})
    lines = ["module headgate.invalid/controlplane", f"go {published['Go']}", f"require {MODULE} v{version}"]
    lines += [f"replace {path} => {path} v0.{version.removeprefix('1.')}" for path in staged]
    (directory / "go.mod").write_text("\n".join(lines) + "\n")


def _is_staged(replacement: Mapping[str, Any]) -> bool:
    return str(replacement["New"]["Path"]).startswith("./staging/")


def _write_etcd_module(go: Go, directory: Path, version: str) -> None:
    directory.mkdir()
    published = go.module(ETCD, version)
    lines = ["module headgate.invalid/etcd", f"go {published['Go']}", f"require {ETCD} v{version}"]
    (directory / "go.mod").write_text("\n".join(lines) + "\n")
    (directory / "main.go").write_text(ETCD_MAIN)


def _version_flags(version: str) -> str:
    """What the linker puts into the programs as their version, as Kubernetes' own build does."""
    values = {"gitVersion": f"v{version}", "gitMajor": "1", "gitMinor": str(minor_of(version))}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s -w", *flags])


def _try_program(program: Path) -> None:
    words = ["version", "--client"] if program.name == "kubectl" else ["--version"]
    ran = subprocess.run([program, *words], capture_output=True, text=True)  # noqa: S603 - built just now
    if ran.returncode:
        raise ControlPlaneError(f"{program.name} was built, but does not run:\n{ran.stdout}{ran.stderr}")


def copy_source(files: Path, work: Path, parts: Sequence[str]) -> None:
    """Copies some directories of a module, which is read-only in Go's cache, with its go.mod and go.sum."""
    wanted = [files / name for name in ("go.mod", "go.sum")]
    wanted += [file for part in parts for file in (files / part).rglob("*") if file.is_file()]
    for file in wanted:
        copy = work / file.relative_to(files)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Holds a lock file; waits for another process that builds the same."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"Waiting for another process that builds {what} ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _disk_full_explained(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ControlPlaneError(
            f"{home} cannot be written: {error}. XDG_CACHE_HOME names another place."
        ) from error


class Go:
    """The `go` command, with its progress shown and its failures explained."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {
            **os.environ,
            "GOFLAGS": f"-mod=mod {os.environ.get('GOFLAGS', '')}".strip(),  # such as -p=1
            "GOWORK": "off",
            "CGO_ENABLED": "0",
            "GO111MODULE": "on",
        }
        if shutil.which("go") is None:
            raise ControlPlaneError(
                "There is no Go to build the control plane with. Install Go 1.26 or newer, "
                "or name a directory that has the programs: HEADGATE_CONTROL_PLANE=DIR"
            )

    def module(self, path: str, version: str) -> dict[str, Any]:
        """The go.mod of a published module, which is downloaded."""
        report(f"Downloading {path} v{version}")
        self.run(["mod", "download", f"{path}@v{version}"], self.home)
        modules = Path(self.run(["env", "GOMODCACHE"], self.home).strip())
        file = modules / "cache" / "download" / path / "@v" / f"v{version}.mod"
        published: dict[str, Any] = json.loads(self.run(["mod", "edit", "-json", str(file)], self.home))
        return published

    def files(self, path: str, version: str) -> Path:
        """The directory with the files of a published module."""
        told: dict[str, str] = json.loads(
            self.run(["mod", "download", "-json", f"{path}@v{version}"], self.home)
        )
        return Path(told["Dir"])

    def build(self, directory: Path, into: Path, packages: Sequence[str], linker_flags: str) -> None:
        """Builds main packages of the module in a directory, into a directory or a file."""
        names = ", ".join(package.rpartition("/")[2] for package in packages) if into.is_dir() else into.name
        report(f"Downloading the modules of {names}")
        listed = self.run(["list", "-deps", *packages], directory).splitlines()
        report(f"Compiling {names}: up to {len(listed)} packages")
        words = ["build", "-v", "-trimpath", "-ldflags", linker_flags, "-o", str(into), *packages]
        self.run(words, directory)
        report(f"Compiled {names}")

    def build_tests(self, directory: Path, into: Path) -> None:
        """Builds the tests of the package in a directory as a program."""
        report(f"Compiling {into.name}")
        self.run(["test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", str(into), "."], directory)
        report(f"Compiled {into.name}")

    def run(self, words: Sequence[str], directory: Path) -> str:
        """Returns the standard output; reports what `go` prints to the standard error every few seconds."""
        with (
            tempfile.TemporaryFile("w+") as output,
            subprocess.Popen(  # noqa: S603 - arguments of this file
                ["go", *words],  # noqa: S607 - the user's Go
                cwd=directory,
                env=self.environ,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            try:
                told = self._follow(process)
            except BaseException:
                process.send_signal(signal.SIGINT)
                raise
            if process.wait():
                raise ControlPlaneError(self._explain(words, "\n".join(told), process.returncode))
            output.seek(0)
            return output.read()

    @staticmethod
    def _follow(process: subprocess.Popen[str]) -> Sequence[str]:
        told: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        reported = time.monotonic()
        assert process.stderr is not None
        for count, line in enumerate(process.stderr, 1):
            told.append(line.rstrip())
            if time.monotonic() - reported >= REPORT_EVERY_S:
                reported = time.monotonic()
                report(f"  {count}: {told[-1]}")
        return told

    def _explain(self, words: Sequence[str], told: str, status: int) -> str:
        command = f"`go {' '.join(words[:2])}`"
        if old := re.search(r"requires go >= (\S+) \(running go (\S+);", told):
            return (
                f"Go is too old: {old[1]} is needed, and {old[2]} is installed. "
                "Install a newer one, or let Go download it: GOTOOLCHAIN=auto"
            )
        if "no space left on device" in told:
            caches = self.run(["env", "GOCACHE", "GOMODCACHE"], self.home).split()
            free = [f"{place} ({shutil.disk_usage(place).free / MB:.0f} MB free)" for place in caches]
            return f"The disk is full: {command} needs about 4 GB in {', '.join(free)}:\n{told}"
        if re.search(r"unknown revision|invalid version|40[34] \w+|410 Gone", told):
            return f"The Go module proxy does not have this version:\n{told}"
        if re.search(
            r"dial tcp|no such host|connection re(fused|set)|timeout|handshake|unreachable|EOF", told
        ):
            proxy = self.run(["env", "GOPROXY"], self.home).strip()
            return f"{command} cannot reach the Go module proxy ({proxy}; GOPROXY names another):\n{told}"
        if status < 0 or "signal: killed" in told:
            return f"{command} was killed; the compiler needs about 3 GB of memory:\n{told}"
        return f"{command} failed with status {status}:\n{told}"
