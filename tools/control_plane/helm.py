"""Helm, which the tests of the chart run: its versions, where it is found, and how it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import build
import programs

VARIABLE = "HEADGATE_HELM"

VERSIONS = {"3": "3.22.0", "4": "4.3.1"}
"""The version that is built, by major version."""

HOW_TO_GET = f"`make helm` builds it with Go in a few minutes; or name the programs: {VARIABLE}=PATH:PATH"


def cache(environ: Mapping[str, str]) -> Path:
    return programs.cache(environ).parent / "helm"


def find(environ: Mapping[str, str]) -> list[Path]:
    """The Helms to test with: those that the environment names, or those that were built, or that of the
    path. Empty if there are none.
    """
    if named := environ.get(VARIABLE):
        found = [Path(each).expanduser().resolve() for each in named.split(os.pathsep)]
        if missing := [str(each) for each in found if not os.access(each, os.X_OK)]:
            raise programs.ControlPlaneError(f"{VARIABLE}={named}: {', '.join(missing)} cannot be executed")
        return found
    built = [cache(environ) / version / "helm" for version in VERSIONS.values()]
    if found := [each for each in built if os.access(each, os.X_OK)]:
        return found
    on_path = shutil.which("helm", path=environ.get("PATH"))
    return [Path(on_path)] if on_path else []


def build_all(environ: Mapping[str, str]) -> list[Path]:
    """Builds each version that is not there, unless the environment names others."""
    if environ.get(VARIABLE):
        return find(environ)
    home = cache(environ)
    home.mkdir(parents=True, exist_ok=True)
    return [_build(major, version, home) for major, version in VERSIONS.items()]


def _build(major: str, version: str, home: Path) -> Path:
    """The program appears under its name only when it is complete."""
    done = home / version / "helm"
    if os.access(done, os.X_OK):
        return done
    module = f"helm.sh/helm/v{major}"
    go = build.Go(home)
    with tempfile.TemporaryDirectory(prefix=f"{version}.new.", dir=home) as name:
        work = Path(name)
        published = go.module(module, version)
        lines = ["module headgate.invalid/helm", f"go {published['Go']}", f"require {module} v{version}"]
        (work / "go.mod").write_text("\n".join(lines) + "\n")
        made = work / "made"
        made.mkdir()
        go.build(work, made, [f"{module}/cmd/helm"], _linker_flags(module, version, published))
        ran = subprocess.run([made / "helm", "version"], capture_output=True, text=True)  # noqa: S603 - built now
        if ran.returncode:
            raise programs.ControlPlaneError(f"helm was built, but does not run:\n{ran.stdout}{ran.stderr}")
        done.parent.mkdir(exist_ok=True)
        (made / "helm").replace(done)
    return done


def _linker_flags(module: str, version: str, published: Mapping[str, object]) -> str:
    """As in Helm's own build: its version, and that of Kubernetes, which `helm template` assumes."""
    values = {f"{module}/internal/version.version": f"v{version}"}
    if module.endswith("/v3"):
        minor = _client_minor(published)
        for package in ("pkg/lint/rules", "pkg/chartutil"):
            values[f"{module}/{package}.k8sVersionMajor"] = "1"
            values[f"{module}/{package}.k8sVersionMinor"] = minor
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def _client_minor(published: Mapping[str, object]) -> str:
    """The minor version of Kubernetes whose client Helm uses: k8s.io/client-go v0.36.1 is of 1.36."""
    required = published["Require"]
    assert isinstance(required, list)
    [client] = [each["Version"] for each in required if each["Path"] == "k8s.io/client-go"]
    return str(client).split(".")[1]
