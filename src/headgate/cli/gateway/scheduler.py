"""Read and validate the scheduler configuration file, with the location of each finding."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from headgate.cli.gateway import recognizing
from headgate.cli.manifests import Node, Place, Span, place_of, plain, read_document
from headgate.cli.validation import Finding, Lines, of_problem
from headgate.dataplane.settings import Scheduling
from headgate.flow import configuration
from headgate.scheduling.configuration import AUTH, Problem, without_auth

SETTING = "scheduling.config_file"
LEVELS = {"warning": logging.WARNING, "note": logging.INFO}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file, and findings about it."""

    content: dict[str, Any] | None = None
    unreadable: str = ""
    """Why the file cannot be opened."""
    errors: list[Finding] = []
    others: list[Finding] = []
    lines: Lines = {}
    says_how_to_wait: bool = False
    """Whether it also configures the queues of pools."""


def read(scheduling: Scheduling, text: str | None = None, *, authenticates: bool = True) -> Said:
    """Read the file that the settings name; empty if they name none. With `text`, that is its content.
    `authenticates`: whether the process does what Kthena's `auth` section asks for."""
    file = scheduling.config_file
    if file is None:
        return Said()
    tree, problems, lines = read_document(file, text)
    if problems and not lines:
        return Said(unreadable=problems[0].message)
    if tree is not None and (other := recognizing.other_than_scheduler(tree, file)) is not None:
        return Said(errors=[other], lines={file: lines})
    if problems or tree is None:
        told = [of_problem(problem) for problem in problems]
        return Said(errors=told or [_of_empty(file)], lines={file: lines})
    content: Any = plain(tree)
    ignored: list[Finding] = []
    if scheduling.ignore_auth and isinstance(content, dict) and content.get(AUTH) is not None:
        # Also removed for the workers: they validate the content again.
        content = without_auth(content)
        message = "this section is ignored because ignore_auth is set: requests are not authenticated"
        span = place_of(tree, AUTH).span
        ignored.append(Finding(file=file, severity="warning", message=message, span=span, path=AUTH))
    allow_alpha = scheduling.allow_experimental_plugins
    if not authenticates and isinstance(content, dict) and content.get(AUTH) is not None:
        message = (
            "Kthena's router lets in only requests with a token by this section; this command checks no "
            "tokens, so every request would be let in"
        )
        fix = "let the proxy authenticate clients, and remove the section"
        span = place_of(tree, AUTH).span
        wrong = Finding(file=file, severity="error", message=message, span=span, path=AUTH, suggestion=fix)
        return Said(errors=[wrong], lines={file: lines})
    findings = judge(file, tree, content, allow_alpha=allow_alpha)
    return Said(
        content=content,
        errors=[finding for finding in findings if finding.severity == "error"],
        others=ignored + [finding for finding in findings if finding.severity != "error"],
        lines={file: lines},
        says_how_to_wait=configuration.read(content, allow_alpha=allow_alpha).queueing is not None,
    )


def judge(file: str, tree: Node, content: object, *, allow_alpha: bool | None) -> list[Finding]:
    """All findings about a configuration, with locations; `allow_alpha` None: warn of experimental
    plugins.
    """
    reading = configuration.read(content, allow_alpha=allow_alpha)
    return [
        Finding(
            file=file,
            severity=problem.severity,
            message=problem.message,
            span=_span(place_of(tree, problem.path), problem),
            path=problem.path,
            suggestion=problem.suggestion,
        )
        for problem in reading.problems
    ]


def _span(place: Place, problem: Problem) -> Span:
    return place.key if problem.is_name and place.key is not None else place.span


def _of_empty(file: str) -> Finding:
    fix = "set kind: EndpointPickerConfig, or remove the setting scheduling.config_file"
    return Finding(file=file, severity="error", message="it says nothing", suggestion=fix)
