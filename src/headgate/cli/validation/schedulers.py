"""Scheduler configurations among manifests: files of a kind that no API server knows, and texts in
ConfigMaps, which API servers do not check.
"""

from __future__ import annotations

import dataclasses
import shlex
import textwrap
from collections.abc import Iterator

import msgspec

from headgate.cli.gateway import recognizing, scheduler
from headgate.cli.manifests import Manifest, Mapping, Problem, Reading, Scalar, plain
from headgate.cli.manifests.composing import Unreadable, compose
from headgate.cli.validation import judging
from headgate.cli.validation.findings import Finding, named, of_problem
from headgate.scheduling import configuration

_ROUTER_KEY = "routerConfiguration"
"""The ConfigMap key with the configuration of Kthena's router, whatever its content."""


def taken_out(reading: Reading, namespace: str) -> tuple[list[Manifest], list[Problem], list[Finding]]:
    """Split off scheduler configurations: returns the remaining manifests and problems, and findings about
    the configurations, including those in ConfigMaps.
    """
    objects = [each for each in reading.manifests if not configuration.is_configuration(each.content)]
    bare = [(problem, each) for problem, each in reading.bare if _is_scheduler(each)]
    excused = [problem for problem, _ in bare]
    settings = {id(problem) for problem, each in reading.bare if recognizing.has_settings(each.content)}
    found = [each for each in reading.manifests if configuration.is_configuration(each.content)]
    findings = [
        finding
        for each in (*found, *(each for _, each in bare))
        for finding in scheduler.judge(each.file, each.tree, each.content, allow_alpha=None)
    ]
    for each in objects:
        if each.content["apiVersion"] == "v1" and each.kind == "ConfigMap":
            findings += _in_config_map(each, reading.lines.get(each.file, []), namespace)
    problems = [
        _as_settings(problem) if id(problem) in settings else problem
        for problem in reading.problems
        if problem not in excused
    ]
    return objects, problems, findings


def _is_scheduler(manifest: Manifest) -> bool:
    return configuration.is_configuration(manifest.content) and not recognizing.has_settings(manifest.content)


def _as_settings(problem: Problem) -> Problem:
    return dataclasses.replace(
        problem,
        message="this is a file of the gateway's settings, not a manifest",
        suggestion=f"check it with: headgate gateway --check-config --config {shlex.quote(problem.file)}",
    )


# -- in ConfigMaps


def _in_config_map(manifest: Manifest, lines: list[str], namespace: str) -> Iterator[Finding]:
    """Findings of a gateway about configurations in this ConfigMap, each at its line."""
    data = manifest.tree.entries.get("data")
    if data is None or not isinstance(data.value, Mapping):
        return
    for key, entry in data.value.entries.items():
        node = entry.value
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            continue
        indent = _indent(node, lines)
        try:
            tree, problems = compose(
                textwrap.indent(node.value, " " * (indent or 0)), node.span.start.line + 1
            )
        except Unreadable as error:
            tree, problems = None, [error.problem]
        content = plain(tree) if tree is not None else None
        is_router = key == _ROUTER_KEY and (tree is not None or bool(problems))
        if not is_router and (
            not configuration.is_configuration(content) or recognizing.has_settings(content)
        ):
            continue
        told = [
            of_problem(Problem(manifest.file, each.span, each.message, each.suggestion)) for each in problems
        ]
        if tree is not None:
            told += scheduler.judge(manifest.file, tree, content, allow_alpha=None)
        where = named(manifest, judging.scope(manifest, None, namespace))
        for finding in told:
            yield msgspec.structs.replace(
                finding,
                span=finding.span if indent is not None else entry.key,
                object=where,
                path=": ".join(filter(None, (f"data.{key}", finding.path))),
            )


def _indent(node: Scalar, lines: list[str]) -> int | None:
    """Indentation of a block scalar in the file; None if its lines are not those of the file."""
    number, column = node.span.start
    if number > len(lines) or lines[number - 1][column - 1 : column] != "|":
        return None
    for written, line in zip(lines[number:], str(node.value).split("\n"), strict=False):
        if line.strip():
            return len(written) - len(line)
    return 0
