"""Proxies from the package index."""

from __future__ import annotations

import subprocess
import sys
from typing import ClassVar

from proxies.processes import CACHE, ROOT, ProxyProcesses, UnavailableError


class PackagedProxy(ProxyProcesses):
    """A proxy from the package index, in its own environment."""

    note: ClassVar[str]
    pinned: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str] = ""
    """Name of its package, if different."""
    extras: ClassVar[str] = ""
    """Extras of the package that the proxy needs, such as "[proxy]"."""

    def __init__(self, cpu: int | None = None) -> None:
        super().__init__(cpu)
        self._environment = CACHE / self.name
        self._python = self._environment / "bin" / "python"

    @property
    def _package(self) -> str:
        return self.package or self.name

    def install(self) -> str:
        if version := self._version():
            return version
        print(f"Installing {self.name} into {self._environment.relative_to(ROOT)} ...", file=sys.stderr)
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", self._environment], check=False)
        if made.returncode != 0:
            raise UnavailableError(f"python -m venv ended with status {made.returncode}")
        package = self._package + self.extras
        # The pinned version, then the newest that works: an index may have removed the old one.
        problem = self._pip(f"{package}=={self.pinned}") and self._pip(package)
        if problem or not (version := self._version()):
            raise UnavailableError(f"pip install {package}: {problem or 'it does not import'}")
        return version

    def _pip(self, requirement: str) -> str | None:
        """Install; return what went wrong. Progress goes to standard error."""
        options = ["--disable-pip-version-check", "--only-binary", ":all:"]
        ran = subprocess.run(
            [self._python, "-m", "pip", "install", *options, requirement],
            stdout=sys.stderr,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
        return None if ran.returncode == 0 else (errors or ["pip failed without a reason"])[-1]

    def _version(self) -> str | None:
        if not self._python.exists():
            return None
        script = f"import {self.module}, importlib.metadata as m; print(m.version('{self._package}'))"
        shown = subprocess.run([self._python, "-c", script], capture_output=True, text=True, check=False)
        return shown.stdout.strip() if shown.returncode == 0 else None
