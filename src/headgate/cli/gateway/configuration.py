"""Load the gateway's settings from file, environment and flags, or report every error with its location."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from headgate import admin_token
from headgate.cli import machine_state, validation
from headgate.cli.gateway import kthena, recognizing, scheduler, suggesting
from headgate.cli.manifests import Entry, Node, Scalar, Span, plain, read_document
from headgate.cli.manifests import Mapping as Tree
from headgate.cli.validation import Finding
from headgate.dataplane.credentials import checking
from headgate.dataplane.providers import provider_file
from headgate.gateway import GatewaySettings, Setting, old_settings, setting_types
from headgate.gateway.settings import InvalidSettings, conflicts
from headgate.telemetry.tracing import environment as environment_of_traces

log = logging.getLogger(__name__)

COMMAND_LINE, ENVIRONMENT = "command line", "environment"

_KUBERNETES_VALUE = re.compile(r"(tcp|udp|sctp)://")
_KUBERNETES_NAME = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)")
"""Variables that Kubernetes sets for each Service; those of a Service headgate-metrics look like ours."""


_OF_TESTS = (
    *("KUBECTL", "REDIS_SERVER", "CONTROL_PLANE", "CONTROL_PLANE_VERSION"),
    *("EXAMPLES", "KILLS", "SEED"),
)
_OTHERS = {
    machine_state.STATE_VARIABLE,
    machine_state.APISERVER_PORT_VARIABLE,
    "HEADGATE_RUN",
    "HEADGATE_GATEWAY_HANDED_OVER",
    admin_token.VARIABLE,
    admin_token.FILE_VARIABLE,
    "HEADGATE_PAGE_TOKEN_FILE",
    *(setting_types.ENVIRONMENT_PREFIX + name for name in _OF_TESTS),
}
"""Used by other commands, by a node for each process, between supervisors in an upgrade, and by tests."""
_TEST_PREFIX = "HEADGATE_TEST_"


class ConfigurationErrors(InvalidSettings):
    """All errors in the settings, each with its location; `findings` also includes the warnings."""

    def __init__(
        self, findings: list[Finding], lines: validation.Lines, *, is_flag_unread: bool = False
    ) -> None:
        wrong = [finding for finding in findings if finding.severity == "error"]
        super().__init__([click.unstyle(validation.line(finding)) for finding in wrong])
        self.findings = findings
        self.lines = lines
        self.exit_code = 2 if is_flag_unread else 1
        """As for any command: 2 for arguments that cannot be parsed."""

    def shown(self) -> str:
        """Compiler-style output: each finding with the line of the file that it is about."""
        return validation.paragraphs(self.findings, self.lines)


class Loaded(msgspec.Struct, frozen=True):
    """Settings, and the origin of each setting that does not have its default."""

    settings: GatewaySettings
    origins: dict[str, str]
    """By path: a place in the file, an environment variable, or a flag."""
    findings: list[Finding]
    """Warnings and notes."""
    lines: validation.Lines
    """Lines of the files that the findings are about."""


def load(
    file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> GatewaySettings:
    """The effective settings: see `load_with_origins`."""
    return load_with_origins(file, flags, environment).settings


def load_with_origins(
    file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> Loaded:
    """Load settings; flags take precedence over environment, file and defaults, in this order. `flags` are by
    key or by old name. Logs warnings.

    Raises ConfigurationErrors with all errors and warnings.
    """
    loaded = judge(file, flags, environment)
    for finding in loaded.findings:
        log.log(scheduler.LEVELS[finding.severity], "%s", click.unstyle(validation.line(finding)))
    return loaded


def judge(file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Loaded:
    """Like `load_with_origins`, but does not log the findings."""
    reading = _read(file, flags, environment)
    reading.drop_zero_bytes()
    settings = GatewaySettings().replace(**reading.values_by_key())
    for path, problem in (*conflicts(settings, reading.unclear), *checking.problems(settings.auth)):
        reading.report(path, problem)
    for problem in provider_file.problems(settings.providers.file):
        reading.report("providers.file", problem)
    for problem in environment_of_traces.problems(settings.tracing.endpoint, environment):
        reading.report("tracing.endpoint", problem)
    if told := environment_of_traces.ignored_exporters(settings.tracing.endpoint, environment):
        name = environment_of_traces.EXPORTER
        reading.warnings.append(_finding("warning", _Place(ENVIRONMENT, name), told, ""))
    said, around = scheduler.read(settings.scheduling), kthena.read(environment)
    if said.unreadable:
        reading.report(scheduler.SETTING, f"{settings.scheduling.config_file}: {said.unreadable}")
    errors = reading.errors + said.errors + around.errors
    others = reading.warnings + said.others + around.others
    if errors:
        raise ConfigurationErrors(
            errors + others, reading.lines | said.lines, is_flag_unread=reading.is_flag_unread
        )
    if said.says_how_to_wait and around.environment:
        told = (
            f"ignored: flowControl in {settings.scheduling.config_file} takes precedence over the environment"
        )
        others += [
            Finding(file="environment", severity="warning", message=told, span=None, path=name)
            for name in around.environment
        ]
    complete = settings.replace(scheduling_content=said.content, queue_kthena_environment=around.environment)
    origins = {path: str(place) for path, place in reading.places.items()}
    return Loaded(complete, origins, others, reading.lines | said.lines)


def places(
    file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Where each setting is set, by path, valid or not."""
    reading = _read(file, flags, environment)
    return {path: str(place) for path, place in reading.places.items()}


def _read(file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str]) -> _Reading:
    reading = _Reading(str(file) if file is not None else "")
    if file is not None:
        reading.read_file()
    reading.read_environment(environment)
    reading.read_flags(flags)
    return reading


class _Place(NamedTuple):
    """Where a setting was set."""

    source: str
    """File, ENVIRONMENT or COMMAND_LINE."""
    name: str
    """The name as written there."""
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.span.start.line}" if self.span is not None else self.name


class _Reading:
    """Collects values, their locations, and errors."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[str, Any] = {}
        self.places: dict[str, _Place] = {}
        self.errors: list[Finding] = []
        self.warnings: list[Finding] = []
        self.lines: validation.Lines = {}
        self.unclear: set[str] = set()
        """Sections of which a part could not be read: using a default there would hide the intended value."""
        self.is_flag_unread = False

    def drop_zero_bytes(self) -> None:
        """Report the values with zero bytes: no file and no name has them, and the system refuses them."""
        for path, value in list(self.values.items()):
            texts = value if isinstance(value, tuple) else (value,)
            if any(isinstance(text, str) and "\0" in text for text in texts):
                self.report(path, f"{value!r} has a zero byte: remove it")
                del self.values[path]

    def values_by_key(self) -> dict[str, Any]:
        return {setting_types.settings()[path].key: value for path, value in self.values.items()}

    # -- the file

    def read_file(self) -> None:
        tree, problems, lines = read_document(self.file)
        self.lines = {self.file: lines}
        self.errors += [validation.of_problem(problem) for problem in problems]
        if tree is None or getattr(tree, "value", tree) is None:
            if problems:
                self._read_nothing()
            return
        if not isinstance(tree, Tree):
            self._read_nothing()
            self._error(_Place(self.file, "", tree.span), "it must be a mapping from sections to settings")
            return
        if (other := recognizing.other_than_settings(tree, self.file)) is not None:
            # None of its keys are settings: one finding is more useful than one for each key.
            self.errors = [other]
            self._read_nothing()
            return
        sections = {section.name for section in setting_types.sections()}
        old = []
        for name, entry in _entries(tree):
            place = _Place(self.file, name, entry.key)
            if name in sections and isinstance(entry.value, Tree):
                self._read_section(name, entry.value)
            elif plain(entry.value) is None and (name in sections or name in old_settings.RENAMED):
                continue
            elif name in old_settings.RENAMED:
                old.append((name, entry))
            elif name in sections:
                place = _Place(self.file, name, entry.value.span)
                self.unclear.add(name)
                self._error(place, "this is a section: it must be a mapping", suggesting.of_section(name))
            else:
                self._error(place, "unknown setting", suggesting.of_name(name))
        for name, entry in old:
            self._take_node(old_settings.RENAMED[name], name, entry.value, entry.key)

    def _read_nothing(self) -> None:
        self.unclear.update(section.name for section in setting_types.sections())

    def _read_section(self, section: str, tree: Tree) -> None:
        for name, entry in _entries(tree):
            path = f"{section}.{name}"
            if path not in setting_types.settings():
                place = _Place(self.file, path, entry.key)
                self.unclear.add(section)
                self._error(place, "unknown setting", suggesting.of_name(name, section))
            elif plain(entry.value) is not None:
                self._take_node(path, path, entry.value, entry.key)

    def _take_node(self, path: str, written: str, node: Node, key: Span) -> None:
        setting = setting_types.settings()[path]
        if written != path and not self._may_use_old_name(setting, _Place(self.file, written, key)):
            return
        if any(error.span == node.span for error in self.errors):
            # Already reported: a number that JSON does not allow, such as .nan.
            self.unclear.add(setting.section)
            return
        value = _value(setting, node)
        if written != path and setting.is_list:
            value = old_settings.as_list(value)
        self._take(setting, value, _Place(self.file, written, node.span))

    # -- the environment

    def read_environment(self, environment: Mapping[str, str]) -> None:
        variables = {setting.variable: setting for setting in setting_types.settings().values()}
        for name, text in sorted(environment.items()):
            if not name.startswith(setting_types.ENVIRONMENT_PREFIX) or _is_of_kubernetes(name, text):
                continue
            if name in _OTHERS or name.startswith(_TEST_PREFIX):
                continue
            place = _Place(ENVIRONMENT, name)
            if name not in variables:
                self._error(place, "unknown setting", suggesting.of_variable(name))
            elif text:
                self._take(variables[name], text, place)

    # -- flags

    def read_flags(self, flags: Mapping[str, Any]) -> None:
        for name, value in flags.items():
            if (setting := setting_types.by_key().get(name)) is not None:
                self._take(setting, value, _Place(COMMAND_LINE, setting.flags[0]))
        for name, value in flags.items():
            if name not in setting_types.by_key():
                setting = setting_types.settings()[old_settings.RENAMED[name]]
                place = _Place(COMMAND_LINE, "--" + name.replace("_", "-"))
                if self._may_use_old_name(setting, place):
                    self._take(setting, value, place)

    # -- all of them

    def _take(self, setting: Setting, value: Any, place: _Place) -> None:
        self.places[setting.path] = place
        convert = setting.parse if place.source == ENVIRONMENT else setting.convert
        try:
            self.values[setting.path] = convert(value)
        except ValueError as error:
            self.unclear.add(setting.section)
            self.is_flag_unread = self.is_flag_unread or place.source == COMMAND_LINE
            self._error(place, str(error), suggesting.of_value(setting, value))

    def _may_use_old_name(self, setting: Setting, place: _Place) -> bool:
        """Warn about an old name. It is an error if the same source also uses the new name."""
        new = setting.flags[0] if place.source == COMMAND_LINE else setting.path
        before = self.places.get(setting.path)
        if before is not None and before.source == place.source and before.name != place.name:
            self._error(place, f"this is the old name of {new}, which is also set", "remove one of the two")
            return False
        self.warnings.append(_finding("warning", place, f"this setting was renamed to {new}", ""))
        return True

    def report(self, path: str, message: str) -> None:
        """Report an error in a setting that was read or has its default."""
        setting = setting_types.settings()[path]
        self._error(self.places.get(path, _Place(COMMAND_LINE, setting.flags[0])), message)

    def _error(self, place: _Place, message: str, suggestion: str = "") -> None:
        self.errors.append(_finding("error", place, message, suggestion))


def _entries(tree: Tree) -> list[tuple[str, Entry]]:
    """All entries in order of appearance. Earlier values of a repeated key are checked too, then replaced."""
    return sorted((*tree.replaced, *tree.entries.items()), key=lambda named: named[1].key.start)


def _finding(severity: validation.Severity, place: _Place, message: str, suggestion: str) -> Finding:
    return Finding(
        file=place.source,
        severity=severity,
        message=message,
        span=place.span,
        path=place.name,
        suggestion=suggestion,
    )


def _is_of_kubernetes(name: str, text: str) -> bool:
    return bool(_KUBERNETES_VALUE.match(text) or _KUBERNETES_NAME.search(name))


def _value(setting: Setting, node: Node) -> object:
    """Where text is expected, keep words that YAML reads as another type: `access_log: off`."""
    if setting.is_text and isinstance(node, Scalar):
        return node.text
    return plain(node)
