"""Validate manifests without a server, with compiler-style errors.

Takes manifests with their positions and the known kinds; returns findings (errors, warnings, notes) with
file, line, column and a fix, and prints them as text, JSON or annotations for continuous integration.

Only findings and their printing are exported here; import `judging` and `kinds`, which load all schemas,
directly.
"""

from headgate.cli.validation.findings import Finding, Severity, about, of_problem, unknown_field
from headgate.cli.validation.rendering import FORMATS, Lines, line, paragraphs, render

__all__ = [
    "FORMATS",
    "Finding",
    "Lines",
    "Severity",
    "about",
    "line",
    "of_problem",
    "paragraphs",
    "render",
    "unknown_field",
]
