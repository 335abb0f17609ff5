"""Check that files of Headgate do not import each other in a circle: `python tools/check_circles.py [SRC]`.

Part of `make check`. Imports for type checking and inside functions count as well: to understand one file of
a circle, you have to read all of them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
TANGLED = ()
"""Packages whose own files are not checked yet. None may be added."""


def modules(src: Path) -> dict[str, Path]:
    """The files below `src`, by module name."""
    found = {}
    for path in src.rglob("*.py"):
        parts = path.relative_to(src).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that a file imports, not including the packages around an imported module."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module


def circle(src: Path, tangled: tuple[str, ...] = ()) -> list[str]:
    """The files of one circle, each importing the next; empty if there is none."""
    known = modules(src)
    graph = {
        name: {other for other in imported(path, known) if other in known and other != name}
        for name, path in known.items()
    }
    for name, others in graph.items():
        room = next((each for each in tangled if f"{name}.".startswith(f"{each}.")), None)
        if room is not None:
            graph[name] = {other for other in others if not f"{other}.".startswith(f"{room}.")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        return names[::-1]
    return []


def main() -> int:
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else SRC
    found = circle(src, TANGLED)
    if found:
        sys.stderr.write(f"files import each other: {' -> '.join(found)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
