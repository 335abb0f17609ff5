"""`tools/check_circles.py`, a part of `make check`, finds files that import each other."""

import importlib.util
import itertools
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "check_circles.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("check_circles", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def house(tmp_path):
    """Writes files of one package."""

    def write(**files: str) -> Path:
        room = tmp_path / "house"
        room.mkdir(exist_ok=True)
        (room / "__init__.py").touch()
        for name, text in files.items():
            (room / f"{name}.py").write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    "back",
    [
        "from house import a",
        "from house.a import f",
        "import house.a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.a import f",
        "def g():\n    from house import a",
    ],
)
def test_a_circle_is_told_in_the_order_of_its_imports(tool, house, back):
    """However the import is written, also for types alone or inside a function."""
    src = house(a="from house import b", b="from house import c", c=back, d="from house import a")
    found = tool.circle(src)
    assert set(found) == {"house.a", "house.b", "house.c"}
    nexts = {"house.a": "house.b", "house.b": "house.c", "house.c": "house.a"}
    assert all(nexts[name] == after for name, after in itertools.pairwise(found))


def test_arrows_of_one_direction_are_no_circle(tool, house):
    """Nor is what a package's file imports of its own package's neighbours."""
    src = house(a="from house import b, c", b="from house.c import f", c="import os")
    assert tool.circle(src) == []


def test_rooms_that_are_not_judged_yet(tool, house):
    """Their own arrows do not count, those to others do."""
    src = house(a="from house import b", b="from house import a")
    assert tool.circle(src, ("house",)) == []
    assert tool.circle(src, ("hous",)) != []


def test_headgate_has_none_outside_of_these_rooms(tool):
    assert tool.circle(tool.SRC, tool.TANGLED) == []
