"""Rules for the source that ruff has not: `python tools/check_source.py [FOLDER...]`, part of `make check`.

- No `raise` inside `except*`: Python 3.11.2, which is that of Debian 12, wraps the new exception in a group,
  so that nobody who expects it catches it. Catch the group, and look at its leaves.
- In `src`, no `sys.executable, "-m"` without "-P": the process would import from its working directory.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tests", "tools", "bench")


def problems(path: Path) -> Iterator[str]:
    """One line for each place that breaks a rule."""
    tree = ast.parse(path.read_text(), str(path))
    is_shipped = not {"tests", "bench"}.intersection(path.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.TryStar):
            for each in raised([statement for handler in node.handlers for statement in handler.body]):
                yield f"{path}:{each.lineno}: raise inside except*, which Python 3.11.2 wraps in a group"
        if isinstance(node, ast.Tuple | ast.List) and is_shipped and imports_from_cwd(node.elts):
            yield f'{path}:{node.lineno}: sys.executable, "-m" without "-P" imports from the working folder'


def imports_from_cwd(words: list[ast.expr]) -> bool:
    """Whether a command line begins with Python and "-m"."""
    return [ast.unparse(word) for word in words[:2]] == ["sys.executable", "'-m'"]


def raised(body: list[ast.stmt]) -> Iterator[ast.Raise]:
    """The `raise` statements that run with these statements: not those of functions defined there."""
    for node in body:
        if isinstance(node, ast.Raise):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for _, field in ast.iter_fields(node):
                inner = field if isinstance(field, list) else []
                yield from raised([each for each in inner if isinstance(each, ast.stmt)])
                for each in inner:
                    if isinstance(each, (ast.ExceptHandler, ast.match_case)):
                        yield from raised(each.body)


def main(folders: list[str]) -> int:
    found = [
        line
        for folder in folders or [str(ROOT / name) for name in FOLDERS]
        for path in sorted(Path(folder).rglob("*.py"))
        for line in problems(path)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
