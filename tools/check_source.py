"""Source rules that ruff does not have: `python tools/check_source.py [FOLDER...]`, part of `make check`.

- No `raise` inside `except*`: Python 3.11.2, the version of Debian 12, wraps the new exception in a group, so
  that callers do not catch it. Catch the group and inspect its leaves instead.
- In `src`, no Python process is started without "-P" or "-I": it would import from its working directory.
  Every use of `sys.executable` counts, unless safe options follow it directly; so do "python3" as the first
  word of a command, and multiprocessing.
- In `src`, no class assigns more than 14 attributes to `self`, together with its bases: what changes together
  belongs into an object of its own. `CROWDED` names the exceptions.
- In `tests`, no two modules beside the tests have the same name, nor that of one in a folder of benchmarks or
  tools that tests import from: they are imported by name, so that one would get the place of the other when
  both are needed in one run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tests", "tools", "bench")


def problems(path: Path, tree: ast.Module | None = None) -> Iterator[str]:
    """One line for each violation in one file, whose content is `tree`."""
    tree = tree or ast.parse(path.read_text(), str(path))
    is_shipped = not {"tests", "bench"}.intersection(path.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.TryStar):
            for each in raised([statement for handler in node.handlers for statement in handler.body]):
                yield f"{path}:{each.lineno}: raise inside except*, which Python 3.11.2 wraps in a group"
    for line in sorted(set(pythons(tree))) if is_shipped else ():
        yield f'{path}:{line}: a Python without "-P" or "-I" imports from its working directory'


INTERPRETER = re.compile(r"(?:.*/)?python[0-9.]*")
SAFE_OPTION = re.compile(r"-[bBdEiOqRsSuvx]*[PI].*")
VALUED_OPTIONS = ("-W", "-X")
STARTS = re.compile(r"run|Popen|call|check_\w+|system|exec\w*|(posix_)?spawn\w*|create_subprocess_\w+")


def pythons(tree: ast.AST) -> Iterator[int]:
    """Lines that may start a Python process which imports from its working directory."""
    judged: set[ast.AST] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
            if any(
                name.split(".")[0] == "multiprocessing" or name == "ProcessPoolExecutor" for name in names
            ):
                yield node.lineno
            if isinstance(node, ast.ImportFrom) and node.module == "sys" and "executable" in names:
                yield node.lineno
        for words in commands(node):
            for at, word in enumerate(words):
                if is_executable(word) or (at == 0 and is_named(word)):
                    judged.add(word)
                    if not is_safe(words[at + 1 :]):
                        yield word.lineno
    # Any other use may end up in a command: under another name, or inside a text.
    yield from (node.lineno for node in nodes if is_executable(node) and node not in judged)


def commands(node: ast.AST) -> Iterator[list[ast.expr]]:
    """Expressions that may be the words of a command: lists, arguments, and shell commands."""
    if isinstance(node, ast.Tuple | ast.List):
        yield node.elts
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        is_start = STARTS.fullmatch(name) is not None
        if not is_start and len(node.args) == 1 and is_executable(node.args[0]):
            yield [node.args[0], ast.Constant("-P")]  # such as Path(sys.executable): starts nothing
        elif is_start and node.args and isinstance(text := node.args[0], ast.Constant):
            words = str(text.value).split()
            if len(words) > 1:
                yield [ast.copy_location(ast.Constant(word), text) for word in words]
            else:
                yield node.args
        elif is_start:
            yield node.args


def is_executable(word: ast.AST) -> bool:
    return (
        isinstance(word, ast.Attribute)
        and word.attr == "executable"
        and ast.unparse(word) == "sys.executable"
    )


def is_named(word: ast.AST) -> bool:
    return isinstance(word, ast.Constant) and INTERPRETER.fullmatch(str(word.value)) is not None


def is_safe(options: list[ast.expr]) -> bool:
    """Whether the options of an interpreter, up to its program, exclude the working directory."""
    is_value = False
    for option in options:
        if ast.unparse(option) == "*sys.orig_argv[1:]":
            return True  # as this process was started
        if not isinstance(option, ast.Constant) or not isinstance(option.value, str):
            return False
        if is_value:
            is_value = False
        elif SAFE_OPTION.fullmatch(option.value):
            return True
        elif not option.value.startswith("-") or option.value[-1:] in "mc":
            return False
        else:
            is_value = option.value in VALUED_OPTIONS
    return False


def raised(body: list[ast.stmt]) -> Iterator[ast.Raise]:
    """The `raise` statements executed with these statements, excluding functions defined there."""
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


OWN_TO_A_FOLDER = ("conftest.py", "__init__.py", "__main__.py")
LENT_TO_TESTS = ("bench", "compare_servers")
"""Folders outside `tests` whose modules tests import by name."""


def namesakes(paths: list[Path]) -> Iterator[str]:
    """One line for each helper of tests that has the name of an earlier one."""
    known: dict[str, Path] = {}
    for path in paths:
        is_helper = "tests" in path.parts and not path.name.startswith("test_")
        is_lent = path.parent.name in LENT_TO_TESTS and "src" not in path.parts
        if (is_helper or is_lent) and path.name not in OWN_TO_A_FOLDER:
            if path.name in known:
                yield f"{path}: has the name of {known[path.name]}, and one run of tests may need both"
            known.setdefault(path.name, path)


MAX_ATTRIBUTES = 14

CROWDED = {
    "fleet/ledger.py:EndpointState": "picks read the account and the health of each candidate at once",
    "gateway/exchange.py:Exchange": "each is a part of the exchange with a class of its own; most are None",
    "gateway/request.py:ParsedHead": "a value: computed once for each head, never changed",
    "requests/life.py:Life": "each is a part of the request with a class of its own; most are None",
    "simulator/server/metrics/series.py:Timings": "one attribute for each series of the metrics page",
}
"""Classes that may have more than `MAX_ATTRIBUTES`, and why."""


class Outline(NamedTuple):
    """What a class assigns to `self`, and what it inherits from."""

    path: Path
    line: int
    name: str
    bases: list[str]
    attributes: set[str]


def outlines(path: Path, tree: ast.Module) -> Iterator[Outline]:
    """The classes of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            names = {
                each.attr
                for method in methods
                for each in ast.walk(method)
                if isinstance(each, ast.Attribute)
                and isinstance(each.ctx, ast.Store)
                and isinstance(each.value, ast.Name)
                and each.value.id == "self"
            }
            names.difference_update(method.name for method in methods)  # properties
            bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
            known = [base.id for base in bases if isinstance(base, ast.Name)]
            yield Outline(path, node.lineno, node.name, known, names)


def crowded(classes: list[Outline]) -> Iterator[str]:
    """One line for each class with too many attributes, and for each exception that is none."""
    known: dict[str, list[Outline]] = {}
    for each in classes:
        known.setdefault(each.name, []).append(each)
    for each in classes:
        count = len(attributes(each, known))
        is_exempt = f"{each.path.as_posix().rpartition('/headgate/')[2]}:{each.name}" in CROWDED
        if is_exempt != (count > MAX_ATTRIBUTES):
            why = "and needs no exception" if is_exempt else f"more than {MAX_ATTRIBUTES}: split it"
            yield f"{each.path}:{each.line}: {each.name} has {count} attributes, {why}"


def attributes(one: Outline, known: dict[str, list[Outline]]) -> set[str]:
    """Those of a class and of its bases. A base is looked up by its name, first in the same file; one whose
    name several other files have is left out."""
    names = set(one.attributes)
    for base in one.bases:
        places = known.get(base, [])
        near = [each for each in places if each.path == one.path and each is not one]
        for each in near or (places if len(places) == 1 else []):
            names |= attributes(each, known)
    return names


def main(folders: list[str]) -> int:
    chosen = folders or [str(ROOT / name) for name in FOLDERS]
    paths = [path for folder in chosen for path in sorted(Path(folder).rglob("*.py"))]
    found: list[str] = []
    classes: list[Outline] = []
    for path in paths:
        tree = ast.parse(path.read_text(), str(path))
        found += problems(path, tree)
        if "src" in path.parts:
            classes += outlines(path, tree)
    found += [*namesakes(paths), *crowded(classes)]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
