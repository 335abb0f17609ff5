"""Add the extension modules that `tools/compile.py` built from these sources for this Python to the wheel.

Without any, the wheel is pure Python, for every version and platform.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOOL = Path(__file__).resolve().parent / "compile.py"
GLIBC = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}
OLDEST_MINOR = 17
"""Of glibc 2: pip on anything older knows no tags of this form."""


class CompiledModules(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("compile_headgate", TOOL)
        assert spec is not None
        assert spec.loader is not None
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        if version == "editable" or not tool.is_fresh():
            return
        built = tool.built()
        build_data["pure_python"] = False
        if platform := manylinux(built):
            python = f"cp{sys.version_info.major}{sys.version_info.minor}"
            build_data["tag"] = f"{python}-{python}{sys.abiflags}-{platform}"
        else:
            build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): str(path.relative_to(tool.SRC)) for path in built})


def manylinux(libraries: Sequence[Path]) -> str | None:
    """The tag of the platforms where these libraries can be loaded, such as manylinux_2_17_x86_64 (PEP 600).

    They need at least the glibc that has their newest symbol. None where they need other libraries as well,
    or another C library.
    """
    shown = subprocess.run(  # noqa: S603 - of binutils
        ["readelf", "--wide", "--dynamic", "--version-info", *map(str, libraries)],  # noqa: S607
        env={**os.environ, "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", shown))
    versions = set(re.findall(r"Name: GLIBC_(\S+)", shown))
    minors = [re.fullmatch(r"2\.(\d+)(\.\d+)?", version) for version in versions]
    if not needed or needed - GLIBC or not all(minors):
        return None
    minor = max([OLDEST_MINOR, *(int(found[1]) for found in minors if found)])
    return f"manylinux_2_{minor}_{sysconfig.get_platform().removeprefix('linux-').replace('-', '_')}"
