"""Prometheus and its adapter, which serves metrics to Kubernetes: where they are, and how they are built."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import build
import programs

VARIABLE = "HEADGATE_MONITORING"


class Module(NamedTuple):
    path: str
    version: str
    commands: Mapping[str, str]
    """Packages of the module, by the name of the program."""
    tags: str = ""


MODULES = (
    Module(
        "github.com/prometheus/prometheus",
        "0.316.0",  # Prometheus 3.16.0
        {"prometheus": "cmd/prometheus", "promtool": "cmd/promtool"},
        "remove_all_sd",
    ),
    Module("sigs.k8s.io/prometheus-adapter", "0.12.0", {"prometheus-adapter": "cmd/adapter"}),
)
NAMES = tuple(name for module in MODULES for name in module.commands)

FETCH = Path(__file__).parents[1] / "debian_packages.sh"

HOW_TO_GET = (
    f"`make monitoring` fetches Debian's Prometheus and builds the adapter with Go in a few minutes; or name "
    f"their directory: {VARIABLE}=DIR"
)


def cache(environ: Mapping[str, str]) -> Path:
    return programs.cache(environ).parent / "monitoring"


def find(environ: Mapping[str, str]) -> dict[str, Path]:
    """The programs by name: of the directory that the environment names, those that were fetched or built, or
    those on the path. Without those that are nowhere."""
    named = environ.get(VARIABLE)
    made = [_fetched(environ) / "usr" / "bin", *(_built(each, environ) for each in MODULES)]
    places = [Path(named).expanduser().resolve()] if named else made
    path = os.pathsep.join(str(each) for each in places)
    if not named:
        path += os.pathsep + environ.get("PATH", "")
    found = {name: shutil.which(name, path=path) for name in NAMES}
    return {name: Path(program) for name, program in found.items() if program}


def build_all(environ: Mapping[str, str]) -> dict[str, Path]:
    """Fetches or builds what is found nowhere: compiling Prometheus takes much longer than fetching it."""
    home = cache(environ)
    home.mkdir(parents=True, exist_ok=True)
    if not find(environ).keys() >= MODULES[0].commands.keys():
        build.report("Fetching Debian's Prometheus")
        words = [FETCH, str(_fetched(environ)), "prometheus"]
        ran = subprocess.run(words, capture_output=True, text=True)  # noqa: S603 - a program of ours
        if ran.returncode:
            build.report(f"It is built instead: {ran.stderr.strip().rpartition(chr(10))[2]}")
    found = find(environ)
    for module in MODULES:
        if not found.keys() >= module.commands.keys():
            _build(module, _built(module, environ), home)
    return find(environ)


def _fetched(environ: Mapping[str, str]) -> Path:
    return cache(environ) / "prometheus-debian"


def _built(module: Module, environ: Mapping[str, str]) -> Path:
    return cache(environ) / f"{module.path.rpartition('/')[2]}-{module.version}"


def _build(module: Module, done: Path, home: Path) -> None:
    """The directory appears under its name only when it is complete."""
    go = build.Go(home)
    go.environ["GOFLAGS"] += f" -tags={module.tags}" if module.tags else ""
    with tempfile.TemporaryDirectory(prefix=f"{done.name}.new.", dir=home) as name:
        work = Path(name)
        published = go.module(module.path, module.version)
        require = f"require {module.path} v{module.version}"
        lines = ["module headgate.invalid/monitoring", f"go {published['Go']}", require]
        (work / "go.mod").write_text("\n".join(lines) + "\n")
        made = work / "made"
        made.mkdir()
        packages = [f"{module.path}/{package}" for package in module.commands.values()]
        go.build(work, made, packages, "-s -w")
        for program, package in module.commands.items():
            (made / Path(package).name).rename(made / program)
            ran = subprocess.run([made / program, "--help"], capture_output=True, text=True)  # noqa: S603 - built now
            if ran.returncode not in (0, 2):  # flag packages of Go exit with 2 after --help
                raise programs.ControlPlaneError(f"{program} was built, but does not run:\n{ran.stderr}")
        shutil.rmtree(done, ignore_errors=True)
        made.rename(done)
