"""Each rule of the inventory is enforced by schema and rules together, and each rule is in the inventory."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import admission_cases
import pytest

from headgate import api
from headgate.api import admission
from headgate.api.admission import enforcement
from headgate.api.admission.findings import Findings
from headgate.api.unattended import UNATTENDED
from headgate.kubeschema import structural

ROOM = Path(inspect.getfile(admission)).parent
CASES = admission_cases.load_all()
SCHEMAS = {
    (f"{d['spec']['group']}/{version['name']}", d["spec"]["names"]["kind"]): version["schema"][
        "openAPIV3Schema"
    ]
    for d in api.custom_definitions()
    for version in d["spec"]["versions"]
}
OF_KUBERNETES = {
    *(
        "defaults.py",
        "findings.py",
        "configuration.py",
        "http_routes.py",
        "metadata.py",
        "pod_changes.py",
        "pods.py",
        "services.py",
        "workloads.py",
    ),
    *("selectors.py:check", "selectors.py:_check_requirement", "scalers.py:check_autoscaler"),
}
"""Modules and functions with rules of the kinds of Kubernetes and its Gateway API, whose servers and webhooks
enforce their own rules."""

Object = dict[str, Any]


class Everything(admission.Gathered):
    """The view of a server."""

    among = ""

    def serves(self, group: str, kind: str) -> bool:
        return group != "example.com"


def judged(
    case: admission_cases.Case, view: type[admission.Gathered] = Everything
) -> tuple[dict[str, str], list[str]]:
    """Errors by field, and warnings, as the embedded server would report them."""
    found = [_named(each) for each in case.others]
    for other in found:
        structural.default(SCHEMAS.get((other["apiVersion"], other["kind"]), {}), other)
    obj, before = _prepared(_named(case.obj)), case.before and _prepared(_named(case.before))
    written = _named(case.obj)
    group = written["apiVersion"].partition("/")[0]
    schema = SCHEMAS[written["apiVersion"], written["kind"]]
    by_schema = structural.validate(schema, obj, before) if before else structural.validate(schema, obj)
    rules = admission.check(obj, before or None, view([*found, obj]))
    refused = admission.errors_of_written(group, written["kind"], written)
    errors = admission.merged(by_schema, [*refused, *rules.errors])
    warnings = [*admission.warnings_of_written(written), *rules.warnings]
    return {each.field: each.message() for each in errors if each.field != structural.NO_FIELD}, warnings


def _named(obj: Object) -> Object:
    named = copy.deepcopy(obj)
    named["metadata"].setdefault("namespace", "default")
    # The objects of a case are there before its own object, unless they are called younger.
    is_first = named["metadata"]["name"] != "younger" and "spec" in named
    named["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z" if is_first else "2026-01-03T00:00:00Z"
    return named


def _prepared(obj: Object) -> Object:
    if obj["metadata"]["name"] != "younger":
        obj["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    structural.default(SCHEMAS[obj["apiVersion"], obj["kind"]], obj)
    admission.default(obj)
    return obj


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_is_enforced(case: admission_cases.Case) -> None:
    """An error at the fields of the case, or a warning with its text."""
    errors, warnings = judged(case)
    if case.rule.is_error:
        assert sorted(errors) == sorted(case.refused)
        assert all(case.says in message for message in errors.values()), errors
    else:
        assert errors == {} or case.rule.by is enforcement.EnforcedBy.MANIFEST
        assert any(case.says in warning for warning in warnings), warnings


@pytest.mark.parametrize("base", admission_cases.bases(), ids=lambda base: base.obj["kind"])
def test_what_the_cases_start_from_is_valid(base: admission_cases.Base) -> None:
    """So that an error or a warning comes from the change."""
    case = admission_cases.Case(CASES[0].rule, base.obj, None, base.others, (), "")
    errors, warnings = judged(case)
    assert errors == {}
    assert [each for each in warnings if not each.startswith("kind: ")] == []


def test_each_rule_has_a_case() -> None:
    """A rule that nobody tries may be enforced nowhere."""
    assert set(enforcement.RULES) - {case.rule for case in CASES} == set()
    assert len({rule[:2] for rule in enforcement.RULES}) == len(enforcement.RULES)


def test_each_place_that_reports_is_reached_by_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is added to the code, but not to the inventory, is found here."""
    # There may be no such kind, and there is a place to report one.
    monkeypatch.setitem(UNATTENDED, ("llmd.ai", "VariantAutoscaling"), "nothing acts on it yet")
    reached = set()
    for name in ("_add", "warn"):
        own = getattr(Findings, name)

        def recorded(self: Findings, *given: Any, own: Any = own) -> None:
            reached.update(_places(sys._getframe(1)))
            own(self, *given)

        monkeypatch.setattr(Findings, name, recorded)
    for case in CASES:
        judged(case)
        judged(case, admission.Gathered)  # of manifests, which may not be all that there is
    assert {f"{file}:{line}" for file, line in set(reporting()) - reached} == set()


def _places(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        if Path(frame.f_code.co_filename).parent == ROOM:
            yield Path(frame.f_code.co_filename).name, frame.f_lineno
        frame = frame.f_back


def reporting() -> Iterator[tuple[str, int]]:
    """Where the rules of Headgate's kinds call a method of Findings."""
    for file in sorted(ROOM.glob("*.py")):
        if file.name in OF_KUBERNETES:
            continue
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef) and f"{file.name}:{function.name}" not in OF_KUBERNETES:
                for node in ast.walk(function):
                    if (
                        isinstance(node, ast.Call)
                        and isinstance(node.func, ast.Attribute)
                        and isinstance(node.func.value, ast.Name)
                        and node.func.value.id == "found"
                    ):
                        yield file.name, node.lineno
