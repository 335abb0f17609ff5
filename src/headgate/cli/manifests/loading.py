"""Load manifests to apply: all of them in order, or all of their errors."""

from __future__ import annotations

from headgate.cli.manifests.nodes import place_of
from headgate.cli.manifests.reading import SUFFIXES, Manifest, Problem, read

_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap")
"""Kinds that others refer to; they are applied before them."""

_LAST = (
    "InferenceModel",
    "InferenceModelRewrite",
    "InferenceObjective",
    "ModelRoute",
    "AutoscalingPolicyBinding",
    "VariantAutoscaling",
)
"""Kinds that refer to others; applied earlier, they would cause warnings about missing objects."""

_METADATA = (
    ("name", str, "text (in quotes, if YAML reads it as another type)"),
    ("namespace", str, "text (in quotes, if YAML reads it as another type)"),
    ("annotations", dict, "a mapping"),
)
"""Fields read before an object is applied; the API server validates the rest."""


class ManifestErrors(Exception):  # noqa: N818 - several of them
    """All errors in the files; one line each in `errors`."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def load(paths: list[str], *, recursive: bool = True) -> list[Manifest]:
    """Load the objects of files, of manifests in directories, and of standard input ("-").

    Objects that others refer to come first. Raises ManifestErrors with all errors.
    """
    reading = read(paths, recursive=recursive)
    problems = [*reading.problems]
    for manifest in reading.manifests:
        problems += _problems(manifest)
    errors = [_line(problem) for problem in sorted(problems, key=lambda problem: problem.order)]
    if not errors and not reading.manifests:
        errors.append(f"{', '.join(paths)}: no manifests found ({', '.join(SUFFIXES)})")
    if errors:
        raise ManifestErrors(errors)
    return sorted(reading.manifests, key=lambda manifest: _rank(manifest.kind))


def _rank(kind: str) -> int:
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + (kind in _LAST)


def _line(problem: Problem) -> str:
    return f"{problem}; {problem.suggestion}" if problem.suggestion else str(problem)


def _problems(manifest: Manifest) -> list[Problem]:
    """Problems that make it impossible to apply an object: it needs a name, by which it is found again."""
    metadata = manifest.content.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") in (None, ""):
        return [Problem(manifest.file, place_of(manifest.tree, "metadata.name").span, "lacks metadata.name")]
    return [
        Problem(
            manifest.file,
            place_of(manifest.tree, f"metadata.{name}").span,
            f"metadata.{name}: must be {wanted}, not {metadata[name]!r:.64}",
        )
        for name, kind, wanted in _METADATA
        if metadata.get(name) is not None and not isinstance(metadata[name], kind)
    ]
