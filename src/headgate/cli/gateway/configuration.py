"""The gateway's settings from its file and its flags: all of them valid, or every error with its place."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from headgate.cli import validation
from headgate.cli.gateway import kthena, scheduler
from headgate.cli.manifests import Mapping as Tree
from headgate.cli.manifests import Node, Scalar, Span, plain, read_document
from headgate.cli.validation import Finding
from headgate.cli.validation.spelling import closest
from headgate.gateway import GatewaySettings, Setting, setting_types
from headgate.gateway.settings import InvalidSettings, conflicts

log = logging.getLogger(__name__)


class ConfigurationErrors(InvalidSettings):
    """Everything that is wrong with the settings, with its place."""

    def __init__(self, findings: list[Finding], lines: validation.Lines) -> None:
        super().__init__([click.unstyle(validation.line(finding)) for finding in findings])
        self.findings = findings
        self.lines = lines

    def shown(self) -> str:
        """As a compiler prints it: each error with the line of the file that it is about."""
        parts = list(validation.render("text", self.findings, self.lines, 0))
        return "\n".join(parts[:-1]).rstrip("\n")


def load(
    file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> GatewaySettings:
    """The settings of the file, those of the flags over them, the defaults below; of the environment what has
    the names of Kthena's queues.

    Raises ConfigurationErrors with all errors.
    """
    reading = _Reading(str(file) if file is not None else "")
    if file is not None:
        reading.read()
    for name, value in flags.items():
        reading.take(setting_types.settings()[name], value, None)
    settings = GatewaySettings(**reading.values)
    all_read = not reading.findings
    for name, problem in conflicts(settings):
        # Of what could not be read, the default stands in, whose port nobody asked for.
        if all_read or not name.endswith("_port"):
            reading.report(name, problem)
    said, around = scheduler.read(settings), kthena.read(environment)
    reading.findings += said.errors + around.errors
    reading.lines |= said.lines
    if reading.findings:
        raise ConfigurationErrors(reading.findings, reading.lines)
    for finding in said.others + around.others:
        log.log(scheduler.LEVELS[finding.severity], "%s", click.unstyle(validation.line(finding)))
    return msgspec.structs.replace(settings, scheduling=said.content, kthena_environment=around.environment)


class _Reading:
    """What was found so far: values, where they stand, and what is wrong."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[str, Any] = {}
        self.findings: list[Finding] = []
        self.lines: validation.Lines = {}
        self._spans: dict[str, Span | None] = {}

    def read(self) -> None:
        tree, problems, lines = read_document(self.file)
        self.lines = {self.file: lines}
        self.findings += [validation.of_problem(problem) for problem in problems]
        if tree is None or getattr(tree, "value", tree) is None:
            return
        if not isinstance(tree, Tree):
            self.report("", "it must be a mapping from settings to values", span=tree.span)
            return
        for name, entry in tree.entries.items():
            setting = setting_types.settings().get(name)
            if setting is None:
                self._report_unknown(name, entry.key)
            elif plain(entry.value) is not None:
                self.take(setting, _value(setting, entry.value), entry.value.span)

    def take(self, setting: Setting, value: object, span: Span | None) -> None:
        """A value of the file, or with no span one of a flag."""
        self._spans[setting.name] = span
        try:
            self.values[setting.name] = setting.convert(value)
        except ValueError as error:
            self.report(setting.name, str(error), suggestion=_fix(setting, value))

    def report(self, name: str, message: str, *, suggestion: str = "", span: Span | None = None) -> None:
        span = span or self._spans.get(name)
        setting = setting_types.settings().get(name)
        source, path = self.file, name
        if span is None and setting is not None:
            source, path = "command line", setting.flag
        self.findings.append(
            Finding(
                file=source, severity="error", message=message, span=span, path=path, suggestion=suggestion
            )
        )

    def _report_unknown(self, name: str, span: Span) -> None:
        near = closest(name.replace("-", "_"), setting_types.settings())
        fix = f"did you mean {near}?" if near else "`headgate gateway --help` lists all settings"
        self.report(name, "there is no such setting", suggestion=fix, span=span)


def _value(setting: Setting, node: Node) -> object:
    """Words that YAML takes for something else are text where text is wanted: `access_log: off`."""
    if setting.is_text and isinstance(node, Scalar):
        return node.text
    return plain(node)


def _fix(setting: Setting, value: object) -> str:
    if setting.choices and isinstance(value, str) and (near := closest(value, setting.choices)):
        return f"did you mean {near}?"
    default = setting.default
    return f"its default is {default:g}" if isinstance(default, int | float) else ""
