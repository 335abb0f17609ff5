"""Reads and validates the files of `--objects`, as an API server and `headgate validate` do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import click

from headgate.cli import validation
from headgate.cli.manifests import Manifest, Reading
from headgate.cli.manifests import read as read_manifests
from headgate.cli.validation import Finding, judging
from headgate.cli.validation.kinds import Kinds
from headgate.standalone.files import FileRead
from headgate.standalone.stored import KINDS

_NAMESPACE = "default"


def read(files: Sequence[str]) -> dict[str, FileRead]:
    """Read files together, in this order; see `standalone.files.Read`."""
    reading = read_manifests(files)
    findings = judged(reading)
    of_file: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda each: each.order):
        of_file[finding.file].append(finding)
    kinds = Kinds()
    return {file: _of_file(file, reading.manifests, of_file[file], kinds) for file in files}


def judged(reading: Reading) -> list[Finding]:
    """Everything that is wrong with these objects, and what has no effect here."""
    findings = [validation.of_problem(problem) for problem in reading.problems]
    kept = [each for each in reading.manifests if _key(each) in KINDS]
    findings += judging.judge(kept, Kinds(), _NAMESPACE)
    findings += [_not_read(each) for each in reading.manifests if _key(each) not in KINDS]
    findings += [
        validation.about(each, "metadata.name", "Required value: it needs a name here", namespace="")
        for each in kept
        if not _has_name(each) and "generateName" in (each.content.get("metadata") or {})
    ]
    return findings


def _not_read(manifest: Manifest) -> Finding:
    """A warning, as files for a cluster have other objects too; an error for a misspelled kind."""
    kinds = Kinds()
    if kinds.find(*_key(manifest)) is None:
        wrong = [
            each
            for each in judging.judge([manifest], kinds, _NAMESPACE)
            if each.path in ("kind", "apiVersion")
        ]
        if wrong:
            return wrong[0]
    told = f"a {manifest.kind} has no effect without an API server and its controllers"
    return validation.about(manifest, "kind", told, namespace="", severity="warning")


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest.content["apiVersion"], manifest.kind


def _has_name(manifest: Manifest) -> bool:
    metadata = manifest.content.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("name"))


def _of_file(file: str, manifests: Sequence[Manifest], findings: Sequence[Finding], kinds: Kinds) -> FileRead:
    lines = [(each.severity, click.unstyle(validation.line(each))) for each in findings]
    errors = tuple(line for severity, line in lines if severity == "error")
    warnings = tuple(line for severity, line in lines if severity == "warning")
    objects: tuple[Mapping[str, Any], ...] = ()
    if not errors:
        objects = tuple(
            judging.completed(each, kinds, _NAMESPACE)
            for each in manifests
            if each.file == file and _key(each) in KINDS
        )
    return FileRead(objects, errors, warnings)
