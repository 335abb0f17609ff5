"""docs/metrics.md and docs/access-log.md have what the code has; queries and alerts ask for what there is."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]
METRICS = ROOT / "docs" / "metrics.md"
LOG = ROOT / "docs" / "access-log.md"
ALERTS = ROOT / "deploy" / "prometheus" / "headgate-alerts.yaml"
_NAME = re.compile(r"\b(?:headgate|process)_\w+")
_LABELS = re.compile(r"(?:\bby|\bon) \(([\w, ]+)\)|\{(\w+)=")
_CELL = re.compile(r"`([^`]*headgate_[^`]*)`")
OF_EVERY_SCRAPE = {"instance", "job", "le"}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """The script that writes the tables."""
    spec = importlib.util.spec_from_file_location("telemetry_tables", ROOT / "tools" / "telemetry_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def labels(tables: ModuleType) -> dict[str, set[str]]:
    """The labels of every series, by its name on the page that is scraped."""
    found = {}
    for family in (*tables.families(), *tables.controller_families()):
        suffixes = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
        for suffix in suffixes[family.kind]:
            found[family.name + suffix] = set(family.label_names)
    return found


@pytest.mark.parametrize("page", [METRICS, LOG], ids=lambda page: page.name)
def test_the_tables_are_those_of_the_code(tables: ModuleType, page: Path) -> None:
    """A name that changed without the page is found here."""
    text = page.read_text()
    assert tables.rendered(text) == text, "write it anew with `make generated`"
    broken = text.replace("\n| `", "\n| `x", 1)
    assert tables.rendered(broken) == text != broken


def check(expression: str, labels: dict[str, set[str]]) -> None:
    names = set(_NAME.findall(expression))
    assert names
    assert names <= labels.keys(), expression
    known = set.union(OF_EVERY_SCRAPE, *(labels[name] for name in names))
    asked = {label for some in _LABELS.findall(expression) for label in "".join(some).split(", ")}
    assert asked <= known, expression


def test_queries_ask_for_what_there_is(labels: dict[str, set[str]]) -> None:
    """Each metric and label of the queries exists."""
    queries = METRICS.read_text().partition("## Queries")[2]
    found = _CELL.findall(queries)
    assert len(found) > 8
    for query in found:
        check(query, labels)


def test_alerts_ask_for_what_there_is(labels: dict[str, set[str]]) -> None:
    """Each alert asks for metrics and labels that exist, and tells of labels that its expression keeps."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        check(rule["expr"], labels)
        told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        aggregated = re.findall(r"\bby \(([\w, ]+)\)", rule["expr"])
        if aggregated and not rule["expr"].startswith("process_"):
            assert told <= {label for some in aggregated for label in some.split(", ")}, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_lines_of_the_page_have_its_fields() -> None:
    """Each `name=` of the example is in the table of its members."""
    text = LOG.read_text()
    example = re.findall(r"^\d{4}-.*", text, re.M)
    assert example
    for line in example:
        plain = re.sub(r'"[^"]*"', "", line)
        for name in re.findall(r" (\w+)=", plain):
            assert f"| `{name}=` |" in text, name
