"""`tools/compile.py` compiles pure modules only, and says of every other one in its rooms why it does not."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "compile.py"
IMPURE = {
    "asyncio",
    "socket",
    "time",
    "threading",
    "subprocess",
    "selectors",
    "uvloop",
    "starlette",
}


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("compile_headgate", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported(path: Path) -> set[str]:
    """What it imports to use it; names of types are no use."""
    found = set()
    tree = ast.parse(path.read_text())
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


SHELL = {
    "headgate.dataplane.background",
    "headgate.gateway.authenticating",
    "headgate.gateway.dial",
    "headgate.gateway.listener",
    "headgate.gateway.services",
    "headgate.gateway.upload",
    "headgate.gateway.upstream",
    "headgate.loop_turns",
    "headgate.http2.connection",
    "headgate.http2.receiver",
    "headgate.rpc.calls",
    "headgate.telemetry.log_clock",
}
"""Parts of shells that every request passes through: measured to cost less if compiled."""


def test_what_is_compiled_does_no_io(tool):
    """All other compiled modules read no clock and start no task: time and randomness are arguments."""
    paths = tool.modules()
    assert len(paths) > 50
    impure = {tool.name_of(path): imported(path) & IMPURE for path in paths if imported(path) & IMPURE}
    assert impure.keys() == SHELL


def test_patterns_mean_files(tool):
    """No pattern of the list is left over from a file that went, and no exclusion leaves out nothing."""
    chosen = {path for pattern in tool.COMPILED for path in tool.PACKAGE.glob(pattern)}
    assert all(list(tool.PACKAGE.glob(pattern)) for pattern in tool.COMPILED)
    for pattern, why in tool.INTERPRETED.items():
        assert chosen.intersection(tool.PACKAGE.glob(pattern)), f"{pattern} is not compiled anyway"
        assert why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import msgspec\nclass A(msgspec.Struct):\n    x: int", "A is a msgspec.Struct"),
        ("from b import Struct\nclass A(Struct, frozen=True):\n    x: int", "A is a msgspec.Struct"),
        (
            "class A:\n    def copy(self):\n        return A.__new__(A)",
            "makes objects without their constructor",
        ),
        (
            "from typing import TYPE_CHECKING, NamedTuple\nif TYPE_CHECKING:\n    from b import B\n"
            "class A(NamedTuple):\n    b: B | None",
            "A has a field of a type that is imported for type checking only",
        ),
    ],
)
def test_what_mypyc_compiles_wrongly_is_left_interpreted(tool, tmp_path, text, why):
    """Options of a Struct would be lost, and a class that is not imported yet would crash the process."""
    path = tmp_path / "a.py"
    path.write_text(text)
    assert tool.leaves_interpreted(path).startswith(why)


def test_a_class_with_its_types_imported_is_compiled(tool, tmp_path):
    """As is one that has annotations in its methods alone."""
    path = tmp_path / "a.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nfrom c import C\nif TYPE_CHECKING:\n    from b import B\n"
        "class A:\n    c: C\n    def f(self, b: B) -> None: ..."
    )
    assert tool.leaves_interpreted(path) is None


def test_modules_of_another_source_are_removed(tool, tmp_path, monkeypatch, capsys):
    """After a change of any source, Headgate runs as the sources say, and not as the old modules did."""
    package = tmp_path / "headgate"
    package.mkdir()
    source, module = package / "a.py", package / f"a{tool.SUFFIX}"
    source.write_text("x = 1")
    module.touch()
    monkeypatch.setattr(tool, "SRC", tmp_path)
    monkeypatch.setattr(tool, "PACKAGE", package)
    monkeypatch.setattr(tool, "KEY", tmp_path / "key")
    tool.KEY.write_text(tool.source_key())
    tool.main(["fresh"])
    assert module.exists()
    source.write_text("x = 2")
    tool.main(["fresh"])
    assert not module.exists()
    assert "make compiled" in capsys.readouterr().out


def test_a_missing_compiler_is_told(tool, tmp_path, monkeypatch):
    """Before anything is removed or built, and with what to install."""
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    monkeypatch.setattr(tool, "KEY", tmp_path / "key")
    monkeypatch.setattr(tool, "remove", lambda: pytest.fail("removed"))
    with pytest.raises(SystemExit, match=r"the C compiler .*/cc.* Headgate runs as plain Python"):
        tool.main([])


def test_what_mypyc_refuses_is_left_interpreted_and_told(tool, monkeypatch, capsys):
    """One module of which it can make nothing costs nobody the others."""
    good, bad = tool.PACKAGE / "fleet" / "ledger.py", tool.PACKAGE / "dataplane" / "trust.py"
    messages = (
        "headgate/fleet/ledger.py:7: warning: Treating generator comprehension as list\n"
        "headgate/dataplane/trust.py:143: AssertionError: Any\n"
        "headgate/dataplane/trust.py:143: note: this is an internal mypyc error\n"
    )

    def mypycify(paths):
        if bad in paths:
            print(messages)  # noqa: T201 - as mypyc does
            sys.exit(1)
        return ["extension"]

    monkeypatch.setattr(tool, "mypycify", mypycify)
    assert tool.translate([good, bad]) == ([good], ["extension"])
    told = capsys.readouterr().out
    assert told.startswith("Left interpreted: headgate/dataplane/trust.py:143: AssertionError: Any")
    assert "ledger" not in told


def test_other_failures_of_mypyc_end_the_build(tool, monkeypatch, capsys):
    """With what it said."""

    def mypycify(paths):
        print("no space left")  # noqa: T201 - as mypyc does
        sys.exit(2)

    monkeypatch.setattr(tool, "mypycify", mypycify)
    with pytest.raises(SystemExit):
        tool.translate([tool.PACKAGE / "fleet" / "ledger.py"])
    assert "no space left" in capsys.readouterr().err
