"""Configurations of schedulers among manifests: files of their own kind, which no API server knows."""

from __future__ import annotations

from headgate.cli.gateway import scheduler
from headgate.cli.manifests import Manifest, Problem, Reading
from headgate.cli.validation.findings import Finding
from headgate.scheduling import configuration


def taken_out(reading: Reading) -> tuple[list[Manifest], list[Problem], list[Finding]]:
    """The manifests and problems that are left without the configurations of schedulers, and what is to be
    said about those."""
    objects = [each for each in reading.manifests if not configuration.is_configuration(each.content)]
    bare = [(problem, each) for problem, each in reading.bare if configuration.is_configuration(each.content)]
    excused = [problem for problem, _ in bare]
    found = [each for each in reading.manifests if configuration.is_configuration(each.content)]
    findings = [
        finding
        for each in (*found, *(each for _, each in bare))
        for finding in scheduler.judge(each.file, each.tree, each.content, allow_alpha=None)
    ]
    problems = [problem for problem in reading.problems if problem not in excused]
    return objects, problems, findings
