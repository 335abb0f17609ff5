"""A scorer that an installed distribution names is a plugin like any other, and can do no harm."""

import importlib
import logging
import math
import random
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from some_endpoints import cycle, endpoints, request

from headgate.scheduling import configuration
from headgate.scheduling.plugins import NoPrefixes

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduling" / "energy_scorer.py"
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a distribution with one module and the entry points of its scorers."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(module: str, source: str, **scorers: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in scorers.items()]
        (about / "entry_points.txt").write_text("\n".join(["[headgate.scorers]", *lines, ""]))
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, module, raising=False)

    yield installed
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def read(plugins: str) -> configuration.Reading:
    return configuration.read(yaml.safe_load(f"{HEAD}plugins: {plugins}\n"))


def errors(plugins: str) -> list[str]:
    return [f"{each.path}: {each.message}" for each in read(plugins).problems if each.severity == "error"]


def test_the_example_of_the_documentation_works(install):
    """It is found by its name, has parameters that are judged, and picks."""
    source = EXAMPLE.read_text()
    assert len(source.splitlines()) < 30
    install("energy_scorer", source, energy="energy_scorer:EnergyScorer")
    pool = endpoints(*({"labels": {"example.com/gpu-watts": watts}} for watts in ("600", "150", "300")), {})
    reading = read("[{type: energy, parameters: {mostWatts: 600}}]")
    assert reading.plan is not None, reading.problems
    policy = reading.plan.policy(NoPrefixes())
    choice = policy.pick(request(), pool, 0.0, random.Random(1))
    assert choice is not None
    assert choice.load is pool[1]
    assert policy.reasons(request(), pool, choice, 0.0)[pool[2]] == "0.5 = energy 0.5 x 1"
    assert reading.plan.shown()["plugins"][0]["parameters"] == {
        "label": "example.com/gpu-watts",
        "mostWatts": 600,
    }
    assert errors("[{type: energy, parameters: {mostWats: 1, label: 3}}]") == [
        "plugins[0].parameters.mostWats: there is no such field",
        "plugins[0].parameters.label: 3: expected str, got int",
    ]


WILD = dedent("""
    from headgate.scheduling.plugins import Scorer

    class Wild(Scorer):
        returned = []
        def scores(self, cycle, loads):
            return self.returned

    class Raising(Scorer):
        def scores(self, cycle, loads):
            raise RuntimeError("no idea")

    NotOne = 3
""")


def test_scores_out_of_the_range_are_clamped(install):
    """B58: 1.7 is 1, -1 is 0, and so is what is no number."""
    install("wild", WILD, wild="wild:Wild")
    reading = read("[{type: wild}]")
    assert reading.plan is not None, reading.problems
    profile = reading.plan.policy(NoPrefixes()).profile
    pool = endpoints({}, {}, {}, {})
    sys.modules["wild"].Wild.returned = [1.7, -1, math.nan, 0.25]
    assert list(profile.totals(cycle(), pool)) == [1.0, 0.0, 0.0, 0.25]


@pytest.mark.parametrize(("scorer", "returned"), [("raising", None), ("wild", [1.0]), ("wild", "ab")])
def test_a_scorer_that_fails_counts_as_0(install, caplog, scorer, returned):
    """Requests are picked by the others, it is logged once and counted each time."""
    install("wild", WILD, wild="wild:Wild", raising="wild:Raising")
    reading = read(f"[{{type: queue-scorer}}, {{type: {scorer}, name: mine}}]")
    assert reading.plan is not None, reading.problems
    sys.modules["wild"].Wild.returned = returned
    policy = reading.plan.policy(NoPrefixes())
    pool = endpoints({"waiting": 3}, {"waiting": 0})
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            choice = policy.pick(request(), pool, 0.0, random.Random(1))
            assert choice is not None
            assert choice.load is pool[1]
    assert policy.failures() == {"mine": 5}
    assert [each.message for each in caplog.records] == [
        "scorer mine failed; its scores count as 0 whenever it fails"
    ]


def test_what_cannot_be_used_is_refused_with_the_reason(install):
    """No such module, no scorer at all, or two distributions that claim the name."""
    install("wild", WILD, three="wild:NotOne", gone="nowhere:Gone", both="wild:Wild")
    install("wilder", WILD, both="wilder:Wild")
    assert errors("[{type: three}, {type: gone}, {type: both}, {type: thre}]") == [
        "plugins[0].type: wild:NotOne must be a subclass of headgate.scheduling.plugins.Scorer",
        "plugins[1].type: nowhere:Gone cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
        "plugins[2].type: both is wild:Wild and wilder:Wild: uninstall one of them",
        "plugins[3].type: there is no plugin type thre",
    ]
    (problem,) = read("[{type: thre}]").problems
    assert problem.suggestion == "did you mean three?"
