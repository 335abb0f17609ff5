"""Build information: the versions of Headgate and Python, and whether the data path is compiled."""

from __future__ import annotations

import platform
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import headgate


class Build(NamedTuple):
    version: str
    python: str
    compiled_modules: int
    """Modules that Python loads as machine code; each of them also exists as plain Python."""

    @property
    def form(self) -> str:
        """`compiled` or `pure`."""
        return "compiled" if self.compiled_modules else "pure"


def installed() -> Build:
    """Inspect the files of the package."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    compiled = sum(1 for folder in headgate.__path__ for _ in Path(folder).rglob(f"*{suffix}"))
    return Build(metadata.version("headgate"), platform.python_version(), compiled)
