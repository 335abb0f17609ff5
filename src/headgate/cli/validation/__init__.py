"""Judging manifests without a server, as a compiler judges source files.

Is given manifests with their positions and the kinds that are known; it hands on findings (errors, warnings,
notes) with file, line, column and what would be right instead, and prints them for people, programs and
continuous integration.
"""

from headgate.cli.validation.findings import Finding, Severity, of_problem
from headgate.cli.validation.judging import judge
from headgate.cli.validation.kinds import Kinds
from headgate.cli.validation.rendering import FORMATS, render

__all__ = ["FORMATS", "Finding", "Kinds", "Severity", "judge", "of_problem", "render"]
