"""One thing that is to be said about a manifest, and where."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.cli.manifests import Manifest, Place, Problem, Scalar, Span, place_of

Severity = Literal["error", "warning", "note"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`object` and `path` are empty where a file cannot be read as far as that."""

    file: str
    severity: Severity
    message: str
    span: Span | None = None
    object: str = ""
    """Kind, namespace and name, as "ModelRoute default/chat"."""
    path: str = ""
    """Of the field, as spec.rules[0].name."""
    suggestion: str = ""

    @property
    def order(self) -> tuple[str, int, int]:
        start = self.span.start if self.span else None
        return (self.file, start.line, start.column) if start else (self.file, 0, 0)


def of_problem(problem: Problem) -> Finding:
    """What is wrong with a text."""
    return Finding(
        file=problem.file,
        severity="error",
        message=problem.message,
        span=problem.span,
        suggestion=problem.suggestion,
    )


def about(
    manifest: Manifest,
    path: str,
    message: str,
    *,
    namespace: str,
    severity: Severity = "error",
    suggestion: str = "",
    place: Place | None = None,
) -> Finding:
    """What is wrong with a field of an object; `namespace` is the one of objects that name none."""
    where = place or place_of(manifest.tree, path)
    return Finding(
        file=manifest.file,
        severity=severity,
        message=message,
        span=where.span,
        object=named(manifest, namespace),
        path=path,
        suggestion=suggestion,
    )


def named(manifest: Manifest, namespace: str) -> str:
    """An object for a person: its kind, namespace (none for "") and name."""
    place = place_of(manifest.tree, "metadata.name")
    if place.missing:
        place = place_of(manifest.tree, "metadata.generateName")
    name = place.node.text if isinstance(place.node, Scalar) and not place.missing else ""
    return f"{manifest.kind} {f'{namespace}/' if namespace else ''}{name or '(no name)'}"
