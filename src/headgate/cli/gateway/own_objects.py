"""The objects of a gateway without an API server: made ready for its start, checked, and printed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.api.stored_object import StoredObject
from headgate.cli.gateway import object_files
from headgate.cli.gateway.configuration import ConfigurationErrors
from headgate.cli.manifests import read as read_manifests
from headgate.cli.objects.printing import as_yaml
from headgate.cli.validation import Finding
from headgate.gateway import GatewaySettings
from headgate.standalone.files import FollowedFiles
from headgate.standalone.source import StandaloneObjects
from headgate.standalone.stored import stored
from headgate.workers.given_objects import settings_of


def source(settings: GatewaySettings, past: Sequence[StoredObject] = ()) -> StandaloneObjects:
    """The source of the objects, with its files read.

    Raises ConfigurationErrors if a file is not valid, unless objects of the `past` can stay in effect.
    """
    check(settings, is_lenient=bool(past))
    made = StandaloneObjects(settings_of(settings.objects), object_files.read, past)
    made.files.load()
    return made


def check(settings: GatewaySettings, *, is_lenient: bool = False) -> list[Finding]:
    """The warnings about the files. Raises ConfigurationErrors if there are errors, unless `is_lenient`."""
    files, missing = FollowedFiles(settings.objects.files, object_files.read, lambda: None).found()
    reading = read_manifests(files)
    findings = [Finding(file=path, severity="error", message=told) for path, told in missing.items()]
    findings += object_files.judged(reading)
    if not is_lenient and any(finding.severity == "error" for finding in findings):
        raise ConfigurationErrors(findings, reading.lines)
    return findings


def printed(settings: GatewaySettings) -> tuple[str, list[str]]:
    """The objects as YAML for an API server, and why there are none of some engines. Raises
    ConfigurationErrors."""
    logging.disable()  # what engines say is printed in the end
    made = source(settings)
    found = asyncio.run(made.asked())
    objects = [_to_apply(msgspec.json.decode(each.body)) for each in made.files.objects()]
    taken = {each.place for each in made.files.objects()}
    objects += [_to_apply(each) for each in found if stored(each).place not in taken]
    problems = [
        f"{server['name']} {server['problem']}"
        for each in made.urls.values()
        for server in each.shown()["servers"]
        if server["problem"]
    ]
    problems += [f"{each.url.name}: {each.problem}" for each in made.urls.values() if each.problem]
    return "---\n".join(as_yaml(each, sort_keys=False) for each in objects), problems


def _to_apply(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what a server adds: its status and uid."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "uid"}
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}
