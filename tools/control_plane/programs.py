"""The programs of a control plane: their versions, and the directory they are taken from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DIRECTORY_VARIABLE = "HEADGATE_CONTROL_PLANE"
VERSION_VARIABLE = "HEADGATE_CONTROL_PLANE_VERSION"

KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NAMES = (*KUBERNETES, "etcd")

NAMED_VERSIONS = {"newest": "1.36.3", "older": "1.34.4"}
"""The newest version that the tests run on, and one two minor versions older."""

ETCD_FROM_MINOR = {36: "3.7.3", 34: "3.6.16", 0: "3.5.35"}
"""The version of etcd for a minor version of Kubernetes: the entry of the highest minor that is not above."""


class ControlPlaneError(Exception):
    """A failure that the message explains, with what to do about it."""


@dataclass(frozen=True)
class Programs:
    directory: Path
    origin: str
    """Where they come from, for people to read."""

    def path(self, name: str) -> str:
        return str(self.directory / name)


def wanted_version(environ: Mapping[str, str]) -> str:
    """The version of Kubernetes that the environment asks for, such as 1.36.3."""
    asked = environ.get(VERSION_VARIABLE) or "newest"
    version = NAMED_VERSIONS.get(asked, asked).removeprefix("v")
    if not re.fullmatch(r"1\.\d+\.\d+", version):
        names = ", ".join(NAMED_VERSIONS)
        raise ControlPlaneError(
            f"{VERSION_VARIABLE}={asked} is neither one of {names} nor a version such as 1.36.3"
        )
    return version


def minor_of(version: str) -> int:
    return int(version.split(".")[1])


def etcd_version(version: str) -> str:
    """The version of etcd that is built for a version of Kubernetes."""
    return ETCD_FROM_MINOR[max(minor for minor in ETCD_FROM_MINOR if minor <= minor_of(version))]


def cache(environ: Mapping[str, str]) -> Path:
    """The directory that has a directory for each built version."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(base) / "headgate" / "control-plane"


def find(environ: Mapping[str, str]) -> Programs | None:
    """The programs to run: those of the directory that the environment names, those that were built, or those
    on the path if they are the version asked for. None if there are none.
    """
    if named := environ.get(DIRECTORY_VARIABLE):
        directory = Path(named).expanduser().resolve()
        if missing := _missing(directory):
            raise ControlPlaneError(f"{DIRECTORY_VARIABLE}={named} has no {', '.join(missing)}")
        return Programs(directory, f"{DIRECTORY_VARIABLE}={named}")
    version = wanted_version(environ)
    built = cache(environ) / version / "bin"
    if not _missing(built):
        return Programs(built, f"built, Kubernetes {version}")
    return _on_path(environ)


def _missing(directory: Path) -> list[str]:
    return [name for name in NAMES if not os.access(directory / name, os.X_OK)]


def _on_path(environ: Mapping[str, str]) -> Programs | None:
    """The programs of the path, if one of its directories has them all."""
    found = shutil.which("kube-apiserver", path=environ.get("PATH"))
    if found is None or _missing(Path(found).parent):
        return None
    asked = environ.get(VERSION_VARIABLE)
    if asked and f"v{wanted_version(environ)}" not in version_of(Path(found)).split():
        return None
    return Programs(Path(found).parent, f"on the path, {version_of(Path(found))}")


def version_of(program: Path) -> str:
    """What a program of Kubernetes prints as its version, such as "Kubernetes v1.36.3"."""
    ran = subprocess.run([program, "--version"], capture_output=True, text=True)  # noqa: S603 - found by find
    return ran.stdout.strip()
