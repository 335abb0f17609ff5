"""Whether the data path is compiled shows on the command line and in a metric."""

import importlib
import json
import sys
import sysconfig

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import headgate
from headgate import telemetry
from headgate.cli import main

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The files of a package with so many compiled modules."""

    def make(modules: int) -> None:
        (tmp_path / "fleet").mkdir()
        (tmp_path / "fleet" / "plain.py").touch()
        (tmp_path / "fleet" / "other.cpython-39-x86_64-linux-gnu.so").touch()
        for number in range(modules):
            (tmp_path / "fleet" / f"module{number}{SUFFIX}").touch()
        monkeypatch.setattr(headgate, "__path__", [str(tmp_path)])

    return make


@pytest.mark.parametrize(("modules", "form"), [(0, "pure Python"), (3, "compiled: 3 modules")])
def test_the_command_line_tells(installed, modules, form):
    """Modules that were compiled for another Python do not count."""
    importlib.import_module("headgate.cli.version")
    installed(modules)
    told = CliRunner().invoke(main, ["version"]).output
    assert told.rstrip().endswith(f"on Python {sys.version.split()[0]}, {form}")


@pytest.mark.parametrize(("modules", "form"), [(0, "pure"), (2, "compiled")])
def test_programs_and_prometheus_are_told(installed, modules, form):
    """As JSON, and as a label of `headgate_build_info`."""
    importlib.import_module("headgate.cli.version")
    installed(modules)
    told = json.loads(CliRunner().invoke(main, ["version", "--output", "json"]).output)
    assert (told["compiled_modules"], told["form"]) == (modules, form)
    registry = telemetry.Registry()
    telemetry.add_process_metrics(registry)
    families = text_string_to_metric_families(registry.render().decode())
    [info] = [family for family in families if family.name == "headgate_build_info"]
    assert info.samples[0].labels == {key: told[key] for key in ("version", "python", "form")}


def test_modules_count_that_are_loaded_as_machine_code():
    """What is counted is what Python loads."""
    from headgate.fleet import ledger

    is_compiled = ledger.__file__.endswith(SUFFIX)
    assert (telemetry.installed().compiled_modules > 0) == is_compiled
