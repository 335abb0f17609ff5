"""Judging manifests without a server, as a compiler judges source files.

Is given manifests with their positions and the kinds that are known; it hands on findings (errors, warnings,
notes) with file, line, column and what would be right instead, and prints them for people, programs and
continuous integration.

Findings and their printing come with the room; `judging` and `kinds`, which know all schemas, do not.
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
