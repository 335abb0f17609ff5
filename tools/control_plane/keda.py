"""KEDA, which scales workloads by its ScaledObjects: its version, where it is found, and how it is built.

Of its 80 kinds of triggers, only that for Prometheus is built: the libraries of the others are half of what
would be compiled. The programs have the names that KEDA gives them in its images.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import build
import programs

MODULE = "github.com/kedacore/keda"
VERSION = "2.21.0"
VARIABLE = "HEADGATE_KEDA"

COMMANDS = {"keda": "cmd/operator", "keda-adapter": "cmd/adapter"}
"""Packages of the module, by the name of the program."""
DEFINITIONS = "definitions"
SOURCES = "config/crd/bases"
"""Where the module has the definitions of its kinds, which are kept beside the programs."""

PARTS = ("apis", "cmd", "controllers", "pkg", "version")
"""Directories of the module that the programs are built from."""
SCALERS = "pkg/scalers"
KEPT = ("scaler.go", "prometheus_scaler.go", "azure_queue_scaler.go")
"""Files of this package. The last one has a constant that the others use."""
CHOICE = "pkg/scaling/scalers_builder.go"
"""The file that chooses a scaler by the type of its trigger."""
TRIGGER = "prometheus"

HOW_TO_GET = f"`make keda` builds it with Go; or name its directory: {VARIABLE}=DIR"


def cache(environ: Mapping[str, str]) -> Path:
    return programs.cache(environ).parent / "keda"


def find(environ: Mapping[str, str]) -> Path | None:
    """The directory of the programs and definitions: the one that the environment names, or that of the
    build."""
    if named := environ.get(VARIABLE):
        directory = Path(named).expanduser().resolve()
        if missing := [name for name in (*COMMANDS, DEFINITIONS) if not (directory / name).exists()]:
            raise programs.ControlPlaneError(f"{VARIABLE}={named} has no {', '.join(missing)}")
        return directory
    built = cache(environ) / VERSION
    return built if all(os.access(built / name, os.X_OK) for name in COMMANDS) else None


def build_it(environ: Mapping[str, str]) -> Path:
    """Builds the version unless it is there. A second build waits for the first one."""
    if found := find(environ):
        return found
    home = cache(environ)
    home.mkdir(parents=True, exist_ok=True)
    with build.locked(home / f"{VERSION}.lock", f"KEDA {VERSION}"):
        return find(environ) or _build_anew(home)


def _build_anew(home: Path) -> Path:
    """The directory appears under its name only when it is complete."""
    for leftover in home.glob(f"{VERSION}.new.*"):  # of killed builds: the lock excludes others
        shutil.rmtree(leftover, ignore_errors=True)
    go = build.Go(home)
    module = f"{MODULE}/v{VERSION.partition('.')[0]}"
    with tempfile.TemporaryDirectory(prefix=f"{VERSION}.new.", dir=home) as name:
        work, made = Path(name) / "module", Path(name) / "made"
        made.mkdir()
        go.module(module, VERSION)
        files = go.files(module, VERSION)
        # Its own go.sum verifies what it is built with.
        build.copy_source(files, work, PARTS)
        _leave_out_scalers(work)
        flags = f"-s -w -X {module}/version.Version={VERSION}"
        go.build(work, made, [f"{module}/{package}" for package in COMMANDS.values()], flags)
        for program, package in COMMANDS.items():
            (made / Path(package).name).rename(made / program)
            _try(made / program)
        (made / DEFINITIONS).mkdir()
        for file in (files / SOURCES).glob("*.yaml"):
            shutil.copyfile(file, made / DEFINITIONS / file.name)
        shutil.rmtree(home / VERSION, ignore_errors=True)
        made.rename(home / VERSION)
    return home / VERSION


def _leave_out_scalers(work: Path) -> None:
    for file in (work / SCALERS).glob("*.go"):
        if file.name not in KEPT:
            file.unlink()
    choice = work / CHOICE
    cases = re.split(r"(?=\n\t(?:case|default)\b)", choice.read_text())
    kept = [each for each in cases if not each.startswith("\n\tcase") or f'"{TRIGGER}"' in each]
    choice.write_text("".join(kept))


def _try(program: Path) -> None:
    ran = subprocess.run([program, "--help"], capture_output=True, text=True)  # noqa: S603 - built now
    if "metrics-service" not in ran.stdout + ran.stderr:
        raise programs.ControlPlaneError(
            f"{program.name} was built, but does not run:\n{ran.stdout}{ran.stderr}"
        )
