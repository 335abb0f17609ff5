"""One finding about a manifest, with its location."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.cli.manifests import Manifest, Problem, Scalar, Span, place_of

Severity = Literal["error", "warning", "note"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`object` and `path` are empty if the file cannot be parsed that far."""

    file: str
    severity: Severity
    message: str
    span: Span | None = None
    object: str = ""
    """Kind, namespace and name, such as "ModelRoute default/chat"."""
    path: str = ""
    """Path of the field, such as spec.rules[0].name."""
    suggestion: str = ""

    @property
    def order(self) -> tuple[str, int, int]:
        start = self.span.start if self.span else None
        return (self.file, start.line, start.column) if start else (self.file, 0, 0)


def of_problem(problem: Problem) -> Finding:
    """A finding for a syntax problem."""
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
    span: Span | None = None,
) -> Finding:
    """A finding about a field of an object, at its value unless another `span` is given.

    `namespace` is the object's namespace.
    """
    return Finding(
        file=manifest.file,
        severity=severity,
        message=message,
        span=span or place_of(manifest.tree, path).span,
        object=named(manifest, namespace),
        path=path,
        suggestion=suggestion,
    )


def unknown_field(manifest: Manifest, path: str, *, namespace: str, suggestion: str) -> Finding:
    """A field that the kind does not have; the finding points at its name."""
    place = place_of(manifest.tree, path)
    span = None if place.missing else place.key
    return about(manifest, path, "unknown field", namespace=namespace, suggestion=suggestion, span=span)


def named(manifest: Manifest, namespace: str) -> str:
    """An object for people: kind, namespace (none for "") and name."""
    place = place_of(manifest.tree, "metadata.name")
    if place.missing:
        place = place_of(manifest.tree, "metadata.generateName")
    name = place.node.text if isinstance(place.node, Scalar) and not place.missing else ""
    return f"{manifest.kind} {f'{namespace}/' if namespace else ''}{name or '(no name)'}"
