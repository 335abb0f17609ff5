"""The environment of Kthena's router, as far as it says how requests wait."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.cli.validation import Finding
from headgate.flow import configuration


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment says, and what is to be said about it."""

    environment: dict[str, str] = {}
    """Empty where it switches no queue on."""
    errors: list[Finding] = []
    others: list[Finding] = []


def read(environment: Mapping[str, str]) -> Said:
    """Of an environment what has the names of Kthena's queues."""
    named = {name: environment[name] for name in configuration.ENVIRONMENT if name in environment}
    problems = configuration.Problems()
    queueing = configuration.of_kthena(named, problems)
    findings = [
        Finding(
            file="environment",
            severity=problem.severity,
            message=problem.message,
            span=None,
            path=problem.path,
            suggestion=problem.suggestion,
        )
        for problem in problems.found
    ]
    return Said(
        environment=named if queueing is not None else {},
        errors=[finding for finding in findings if finding.severity == "error"],
        others=[finding for finding in findings if finding.severity != "error"],
    )
