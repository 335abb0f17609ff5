"""Puts the extension modules that `tools/compile.py` built from these sources for this Python into the wheel.

Where there are none, the wheel is one of plain Python, for every version and platform.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOOL = Path(__file__).resolve().parent / "compile.py"


class CompiledModules(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("compile_headgate", TOOL)
        assert spec is not None
        assert spec.loader is not None
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        if version == "editable" or not tool.is_fresh():
            return
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["force_include"].update(
            {str(path): str(path.relative_to(tool.SRC)) for path in tool.built()}
        )
