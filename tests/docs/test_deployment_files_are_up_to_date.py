"""What files in deploy take from each other and from the code is current: `make generated` updates it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "headgate"


@pytest.fixture
def deployment() -> ModuleType:
    spec = importlib.util.spec_from_file_location("deployment", ROOT / "tools" / "deployment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def promtool() -> str:
    """That of `make monitoring`; without it, the test is skipped."""
    command = [sys.executable, ROOT / "tools" / "control_plane", "path-monitoring"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    programs = [each for each in found if each.endswith("/promtool") and Path(each).exists()]
    if not programs:
        pytest.skip("there is no promtool: run `make monitoring`")
    return programs[0]


def test_the_schema_has_the_settings_of_the_gateway(deployment):
    assert deployment.SCHEMA.read_text() == deployment.schema(deployment.SCHEMA.read_text())


def test_the_definitions_are_listed(deployment):
    assert deployment.LIST_OF_DEFINITIONS.read_text() == deployment.list_of_definitions()


def test_the_policies_are_those_of_the_code(deployment):
    assert deployment.POLICIES.read_text() == deployment.list_of_policies()
    assert deployment.COPY_OF_POLICIES.read_text() == deployment.list_of_policies()


def test_the_rules_are_those_for_prometheus(deployment):
    for rules, copy in deployment.RULES.items():
        assert copy.read_text() == rules.read_text()


def test_rules_and_panels_are_those_of_their_definitions():
    """`tools/monitoring` writes all of them."""
    print_all = "import json, writing; print(json.dumps(writing.files()))"
    command = [sys.executable, "-c", print_all]
    done = subprocess.run(
        command, cwd=ROOT / "tools" / "monitoring", capture_output=True, text=True, check=True
    )
    for path, text in json.loads(done.stdout).items():
        assert (ROOT / path).read_text() == text, path


def test_alerts_and_panels_share_their_thresholds():
    """What is red in Grafana has an alert about the same query, with the same number."""
    alerts = yaml.safe_load((ROOT / "deploy" / "prometheus" / "headgate-alerts.yaml").read_text())
    exprs = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    found = 0
    for panel in dashboard["panels"]:
        steps = panel.get("fieldConfig", {}).get("defaults", {}).get("thresholds", {}).get("steps", [])
        for step in steps[1:]:
            found += 1
            query = panel["targets"][-1]["expr"].replace("[$__rate_interval]", "[5m]")
            query = re.sub(r'namespace=~"\$namespace", pod=~"\$pod"(, )?', "", query).replace("{}", "")
            assert f"{query} > {step['value']}" in exprs, panel["title"]
    assert found == 4


def test_prometheus_takes_the_rules(promtool, tmp_path):
    """Its own tool reads all rules, and the queries of the dashboard as if they were rules."""
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    panels = tmp_path / "panels.yaml"
    records = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(queries)
    ]
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    rules = [ROOT / "deploy" / "prometheus" / f"headgate-{name}.yaml" for name in ("alerts", "signals")]
    command = [promtool, "check", "rules", *rules, panels]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout


def test_the_version_is_that_of_headgate():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_the_dashboard_shows_only_metrics_that_the_docs_list():
    listed = set(re.findall(r"^\| `(\w+)` \| \w+ \|", (ROOT / "docs" / "metrics.md").read_text(), re.M))
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries += [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    assert len(queries) > 20
    for query in queries:
        shown = re.findall(r"\b(?:headgate|process)_\w+", query)
        assert shown, query
        assert {name.removesuffix("_bucket") for name in shown} <= listed, query


def test_every_value_has_a_default_that_people_can_read():
    """values.yaml has what the schema allows, except for the settings, which docs/settings.md lists."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    del schema["properties"]["global"]  # of Helm
    del schema["properties"]["gateway"]["properties"]["settings"]

    def missing(schema: dict[str, Any], values: dict[str, Any], path: str) -> Iterator[str]:
        for name, inner in schema.get("properties", {}).items():
            if name not in values:
                yield f"{path}{name}"
            else:
                yield from missing(inner, values[name], f"{path}{name}.")

    assert list(missing(schema, values, "")) == []
