"""A wheel has the modules that were compiled from its sources for its Python, or is of plain Python."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import types
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_headgate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clone(tmp_path) -> Path:
    """One with a compiled module, of its sources and of this Python."""
    shutil.copytree(TOOLS, tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src" / "headgate" / "fleet").mkdir(parents=True)
    source = tmp_path / "src" / "headgate" / "fleet" / "ledger.py"
    source.write_text("x = 1")
    tool = loaded(tmp_path / "tools" / "compile.py")
    source.with_suffix(tool.SUFFIX).touch()
    source.with_suffix(".cpython-39-x86_64-linux-gnu.so").touch()
    tool.KEY.parent.mkdir(parents=True)
    tool.KEY.write_text(tool.source_key())
    return tmp_path


@pytest.fixture
def needs(monkeypatch):
    """Says which libraries and which versions of glibc's symbols the compiled modules need."""

    def say(libraries: list[str], versions: list[str]) -> None:
        shown = [f" 0x1 (NEEDED)  Shared library: [{name}]" for name in libraries]
        shown += [f"  0x0010:   Name: {version}  Flags: none  Version: 2" for version in versions]
        ran = subprocess.CompletedProcess([], 0, stdout="\n".join(shown))
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: ran)

    say(["libc.so.6"], ["GLIBC_2.2.5"])
    return say


@pytest.fixture
def packed(clone, needs, monkeypatch):
    """What the hook of the wheel adds, by the kind of wheel."""
    interface = types.ModuleType("interface")
    monkeypatch.setattr(interface, "BuildHookInterface", object, raising=False)
    for name in (
        "hatchling",
        "hatchling.builders",
        "hatchling.builders.hooks",
        "hatchling.builders.hooks.plugin",
    ):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", interface)
    hook = loaded(clone / "tools" / "wheel_hook.py").CompiledModules()

    def pack(version: str) -> dict:
        data = {"pure_python": True, "force_include": {}}
        hook.initialize(version, data)
        return data

    return pack


def test_compiled_modules_go_into_the_wheel_of_their_python(packed):
    """Which then is for this Python and platform only; modules for another one are left out."""
    data = packed("standard")
    [inside] = data["force_include"].values()
    assert inside.startswith("headgate/fleet/ledger.cpython-3")
    assert data["tag"].startswith("cp{0}{1}-cp{0}{1}".format(*sys.version_info))
    assert not data["pure_python"]


@pytest.mark.parametrize(
    ("versions", "platform"),
    [
        (["GLIBC_2.2.5", "GLIBC_2.14"], "manylinux_2_17"),
        (["GLIBC_2.38", "GLIBC_2.4"], "manylinux_2_38"),
    ],
)
def test_its_name_has_the_oldest_glibc_that_it_runs_with(versions, platform, packed, needs):
    """Which is that of its newest symbol; older than 2.17 is none for pip."""
    needs(["libc.so.6", "libm.so.6"], versions)
    machine = sysconfig.get_platform().removeprefix("linux-")
    assert packed("standard")["tag"].endswith(f"-{platform}_{machine}")


@pytest.mark.parametrize(
    ("libraries", "versions"),
    [
        (["libc.musl-x86_64.so.1"], []),
        (["libc.so.6", "libstdc++.so.6"], ["GLIBC_2.2.5"]),
        (["libc.so.6"], ["GLIBC_2.2.5", "GLIBC_ABI_DT_RELR"]),
    ],
)
def test_where_the_oldest_glibc_is_not_known_it_is_for_this_kind_of_machine(
    libraries, versions, packed, needs
):
    """As with other libraries, or another C library."""
    needs(libraries, versions)
    data = packed("standard")
    assert data["infer_tag"]
    assert "tag" not in data


def test_other_sources_make_a_wheel_of_plain_python(packed, clone):
    """What was compiled before a change is not shipped with it."""
    (clone / "src" / "headgate" / "fleet" / "ledger.py").write_text("x = 2")
    assert packed("standard") == {"pure_python": True, "force_include": {}}


def test_an_editable_install_is_of_plain_python(packed):
    """It finds compiled modules beside their sources."""
    assert packed("editable") == {"pure_python": True, "force_include": {}}


def test_a_python_that_is_not_there_is_told(monkeypatch, capsys, tmp_path):
    """Wheels for the others are built."""
    tool = loaded(TOOLS / "wheels.py")
    monkeypatch.setattr(tool, "copy_sources", lambda: None)
    assert tool.main([str(tmp_path / "python3.99")]) == 1
    assert "python3.99: no wheel is compiled for it" in capsys.readouterr().err
