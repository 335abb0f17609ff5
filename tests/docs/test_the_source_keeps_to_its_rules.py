"""`tools/check_source.py`, a part of `make check`, finds what it says and nothing else."""

import ast
import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "check_source.py"


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location("check_source", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_repository_keeps_to_them(tool, capsys):
    """No code raises inside `except*`, where Python 3.11.2 wraps the error in a group."""
    assert tool.main([]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("raise", 1),
        ("raise ValueError from error", 1),
        ("if error:\n            raise", 1),
        ("try:\n            pass\n        except OSError:\n            raise", 1),
        ("match error:\n            case 1:\n                raise", 1),
        ("print(error)", 0),
        ("def later():\n            raise ValueError", 0),
    ],
)
def test_a_raise_is_found_wherever_it_stands(tool, tmp_path, body, found):
    """Under conditions too, but not in a function that only begins its life there."""
    file = tmp_path / "code.py"
    file.write_text(f"def f():\n    try:\n        pass\n    except* OSError as error:\n        {body}\n")
    assert len(list(tool.problems(file))) == found


@pytest.mark.parametrize(
    ("words", "found"),
    [('"-m", "headgate"', 1), ('"-P", "-m", "headgate"', 0), ('"-I", "-S", "launcher.py"', 0)],
)
def test_a_process_that_imports_from_its_working_directory_is_found(tool, tmp_path, words, found):
    """As a tuple and as a list; tests may start what they like."""
    file = tmp_path / "code.py"
    file.write_text(f"import sys\na = (sys.executable, {words})\nb = [sys.executable, {words}, *a]\n")
    assert len(list(tool.problems(file))) == 2 * found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('a = (sys.executable, "-c", "pass")', 1),
        ('a = [sys.executable, "tool.py"]', 1),
        ('a = [sys.executable, "-u", "-m", "x"]', 1),
        ("a = [sys.executable, *words]", 1),
        ('a = [sys.executable, "-Im", "x"]', 0),
        ('a = [sys.executable, "-c", "-P"]', 1),
        ('a = [sys.executable, "-u", "-P", "-m", "x"]', 0),
        ('a = [sys.executable, "-X", "dev", "-I", "x.py"]', 0),
        ('a = ["nice", sys.executable, "-m", "x"]', 1),
        ('a = ["nice", sys.executable, "-P", "-m", "x"]', 0),
        ("a = [sys.executable, *sys.orig_argv[1:]]", 0),
        ('asyncio.create_subprocess_exec(sys.executable, "-m", "x")', 1),
        ('asyncio.create_subprocess_exec(sys.executable, "-P", "-m", "x")', 0),
        ("subprocess.run(sys.executable)", 1),
        ('python = sys.executable\na = [python, "-m", "x"]', 1),
        ('os.system(f"{sys.executable} -m x")', 1),
        ('subprocess.run(["python3", "-m", "x"])', 1),
        ('subprocess.run(["/usr/bin/python3.11", "-P", "-m", "x"])', 0),
        ('os.system("python3 -m x")', 1),
        ('os.system("python3 -I -m x")', 0),
        ("from sys import executable", 1),
        ("import multiprocessing", 1),
        ("from concurrent.futures import ProcessPoolExecutor", 1),
        ("a = Path(sys.executable).parent", 0),
        ('a = ("version", "python")', 0),
    ],
)
def test_every_way_to_start_a_python_is_found(tool, tmp_path, code, found):
    """However the command is put together; what cannot be read from the code counts as unsafe."""
    file = tmp_path / "code.py"
    file.write_text(f"import sys\n{code}\n")
    assert len(list(tool.problems(file))) == found


def test_a_raise_in_a_plain_except_is_fine(tool, tmp_path):
    """Only `except*` wraps errors."""
    (tmp_path / "code.py").write_text("try:\n    pass\nexcept OSError:\n    raise\n")
    assert tool.main([str(tmp_path)]) == 0


def test_helpers_of_tests_with_the_same_name_are_found(tool, tmp_path):
    """Not those that pytest itself finds by their folder."""
    folders = [tmp_path / "tests" / name for name in ("a", "b")]
    paths = [folder / name for folder in folders for name in ("helper.py", "conftest.py", "test_it.py")]
    assert [line.split(":")[0] for line in tool.namesakes(paths)] == [str(folders[1] / "helper.py")]


def test_a_helper_with_the_name_of_one_that_is_lent_to_tests_is_found(tool, tmp_path):
    """Tests import benchmarks and the tool that compares servers by name, as they do their own helpers."""
    lent = [tmp_path / "bench" / "load.py", tmp_path / "tools" / "compare_servers" / "stories.py"]
    private = [tmp_path / "bench" / "live" / "engines.py", tmp_path / "tools" / "other" / "servers.py"]
    helpers = [tmp_path / "tests" / path.name for path in (*lent, *private)]
    found = [line.split(":")[0] for line in tool.namesakes([*lent, *private, *helpers])]
    assert found == [str(tmp_path / "tests" / path.name) for path in lent]


def test_a_class_with_too_many_attributes_is_found(tool, tmp_path):
    """Those of its bases count, and properties do not; a value without methods may have any number."""
    folder = tmp_path / "src" / "headgate"
    folder.mkdir(parents=True)
    fields = "\n".join(f"    f{number}: int" for number in range(20))
    made = "\n".join(f"        self.a{number} = {number}" for number in range(tool.MAX_ATTRIBUTES))
    (folder / "base.py").write_text(f"class Base:\n    def __init__(self):\n{made}\n")
    (folder / "value.py").write_text(f"class Value(Struct):\n{fields}\n")
    more = folder / "more.py"
    more.write_text(
        "class Same(Base):\n    @x.setter\n    def x(self, to):\n        self.x = self.a1 = to\n"
        "class More(Base):\n    def f(self):\n        self.b, self.a1 = 1, 2\n"
    )
    found = [
        outline for path in folder.iterdir() for outline in tool.outlines(path, ast.parse(path.read_text()))
    ]
    lines = list(tool.crowded(found))
    assert lines == [f"{more}:5: More has {tool.MAX_ATTRIBUTES + 1} attributes, more than 14: split it"]


def test_an_exception_that_is_not_needed_is_found(tool):
    """So that the list stays short."""
    place, _, name = next(iter(tool.CROWDED)).partition(":")
    outline = tool.Outline(Path("src/headgate") / place, 1, name, [], {"a"})
    assert len(list(tool.crowded([outline]))) == 1
