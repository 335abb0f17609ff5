"""docs/architecture.md names the rooms, the arrows and the code as they are."""

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "headgate"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PICTURE = re.compile(r"^```text\n(.*?)^```$", re.M | re.S)
TICKED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w/.-]+\.(?:py|toml)|\w[\w/]*/")
NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)?")
IN_PICTURE = re.compile(r"[A-Za-z]\w*\.\w+|[A-Z][a-z]+[A-Z]\w*")


def blocks() -> Iterator[str]:
    """The page's paragraphs, items of lists, and rows of tables; without the pictures."""
    for paragraph in re.split(r"\n\s*\n", PICTURE.sub("", PAGE)):
        yield from re.split(r"\n(?=\||\d+\. |- )", paragraph)


def place(file: str) -> Path | None:
    """Below the source, or below the repository."""
    return next((base / file for base in (SRC, ROOT) if (base / file).exists()), None)


@functools.cache
def defined(file: Path) -> frozenset[str]:
    """Functions, constants, classes, and members of classes as `Class.member`."""
    return frozenset(names(ast.parse(file.read_text()).body))


def names(body: list[ast.stmt], of: str = "") -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=name, body=inner):
                yield of + name
                yield from names(inner, f"{of}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield of + name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield of + name


def missing(block: str) -> list[str]:
    """What a block names and is not in the files that it names, or is no file."""
    told = TICKED.findall(block)
    files = {each: place(each) for each in told if FILE.fullmatch(each)}
    sources = [file for file in files.values() if file is not None and file.suffix == ".py"]
    known = {name for file in sources for name in defined(file)}
    wanted = [each for each in told if NAME.fullmatch(each) and each not in files]
    return [each for each, file in files.items() if file is None] + [
        each for each in wanted if each not in known
    ]


def test_every_file_and_name_exists():
    """Each name is defined in a file that is named beside it."""
    assert [each for block in blocks() for each in missing(block)] == []


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ("`cluster/store.py`: `Store.put` and `Change`", []),
        ("`cluster/store.py`: `Store.putt`", ["Store.putt"]),
        ("`cluster/stores.py`: `Store.put`", ["cluster/stores.py", "Store.put"]),
        ("| band | `flow/queue/flow.py`: `Band` |", ["Band"]),
        ("`rooms/`, `make check` and `/api/`", ["rooms/"]),
    ],
)
def test_what_no_longer_exists_is_found(block, wrong):
    """A file, a class, a method, or a name that is in another file now."""
    assert missing(block) == wrong


def pictures() -> dict[str, str]:
    """The pictures, by the headings that they stand below."""
    sections = re.split(r"^##+ ", PAGE, flags=re.M)
    return {each.splitlines()[0]: found[1] for each in sections if (found := PICTURE.search(each))}


@pytest.mark.parametrize("life", ["Life of a request", "Life of an object"])
def test_names_of_the_pictures_are_explained_or_exist(life):
    """Each is `Class`, `Class.method` or `module.function`."""
    found = set(IN_PICTURE.findall(pictures()[life]))
    assert len(found) > 20
    known: set[str] = set()
    for file in SRC.rglob("*.py"):
        known |= defined(file) | {f"{file.stem}.{name}" for name in defined(file)}
    assert found - known == set()


def rows(heading: str) -> list[str]:
    return re.findall(r"^\| `([\w/.]+)` \|", PAGE.partition(heading)[2].partition("\n#")[0], re.M)


def test_rooms_are_those_of_the_source():
    """Every package and every module has its line."""
    packages = {f"{each.parent.name}/" for each in SRC.glob("*/__init__.py")}
    modules = {each.name for each in SRC.glob("*.py")} - {"__init__.py", "__main__.py"}
    listed = rows("## Rooms")
    assert len(listed) == len(set(listed))
    assert set(listed) == packages | modules


def contracts() -> list[dict[str, list[str]]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["tool"]["importlinter"]["contracts"]


def test_arrows_are_those_of_the_contract():
    """The same lines in the same order; rooms that a contract names ahead of time are left out."""
    layers = [set(re.findall(r"headgate\.(\w+)", layer)) for layer in contracts()[0]["layers"]]
    there = [{room for room in layer if (SRC / room).is_dir()} for layer in layers]
    picture = pictures()["Arrows"]
    assert [set(line.split()) for line in picture.splitlines()] == [layer for layer in there if layer]


def test_pure_rooms_are_those_of_the_contract():
    """The paragraph lists every one."""
    (block,) = (each for each in blocks() if each.startswith("A second contract"))
    told = {each.rstrip("/") for each in TICKED.findall(block) if each.endswith("/")}
    sources = contracts()[1]["source_modules"]
    assert told == {each.removeprefix("headgate.").replace(".", "/") for each in sources}
