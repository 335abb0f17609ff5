"""`headgate validate` rejects each Model that an API server would reject, at the same fields."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from headgate.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "api" / "admission" / "driver"))

import admission_cases

CASES = [case for case in admission_cases.load_all() if case.rule.kind == "Model" and case.rule.is_error]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_is_enforced(case: admission_cases.Case) -> None:
    """Whoever enforces it in a cluster: definition, policy or webhook."""
    arguments = ["validate", "-f", "-", "-o", "json"]
    result = CliRunner().invoke(main, arguments, input=yaml.safe_dump(case.obj), catch_exceptions=False)
    assert result.exit_code == 1, result.output
    errors = [each for each in json.loads(result.stdout) if each["severity"] == "error"]
    assert sorted(each["path"] for each in errors) == sorted(case.refused)
    assert all(case.says in each["message"] for each in errors), errors
