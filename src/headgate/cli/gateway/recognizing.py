"""Recognize a file given in place of another kind of file, and name the setting or command that takes it."""

from __future__ import annotations

import shlex
from typing import Any

from headgate.cli.manifests import Mapping, Node, place_of, plain
from headgate.cli.manifests.composing import Unreadable, compose
from headgate.cli.validation import Finding
from headgate.gateway import old_settings, setting_types
from headgate.scheduling import configuration

_SCHEDULER = "scheduling.config_file (--scheduling-config-file {})"
_PICKER = "EndpointPickerConfig"


def other_than_settings(tree: Mapping, file: str) -> Finding | None:
    """Return an error if a file given as gateway settings is another kind of file."""
    content = plain(tree)
    name = shlex.quote(file)
    if configuration.is_configuration(content) and not has_settings(content):
        what = f"{_of_scheduler(content)}, not a file of settings"
        return _finding(tree, file, what, f"name it in the setting {_SCHEDULER.format(name)}")
    match content.get("kind"):
        case "ConfigMap":
            return _of_config_map(tree, file, content)
        case "Config" if "clusters" in content:
            fix = f"name it in the setting kubernetes.kubeconfig (--kubeconfig {name})"
            return _finding(tree, file, "this is a kubeconfig, not a file of settings", fix)
        case str(kind) if "apiVersion" in content:
            what = f"this is a manifest of kind {kind}, not a file of settings"
            return _finding(tree, file, what, f"apply it to an API server: headgate apply -f {name}")
    return None


def other_than_scheduler(tree: Node, file: str) -> Finding | None:
    """Return an error if a file given as scheduler configuration is another kind of file."""
    content = plain(tree)
    name = shlex.quote(file)
    if not isinstance(content, dict) or not isinstance(tree, Mapping):
        return None
    if "kind" not in content and has_settings(content):
        what = "this is a file of the gateway's settings, not a scheduler configuration"
        return _finding(tree, file, what, f"pass it to the gateway with --config {name}")
    match content.get("kind"):
        case "ConfigMap":
            return _of_config_map(tree, file, content)
        case str(kind) if kind != _PICKER and "apiVersion" in content and "spec" in content:
            what = f"this is a manifest of kind {kind}, not a scheduler configuration"
            return _finding(tree, file, what, f"apply it to an API server: headgate apply -f {name}")
    return None


def has_settings(content: object) -> bool:
    """Whether a document has sections of settings, or settings under their old names."""
    if not isinstance(content, dict):
        return False
    sections = {section.name for section in setting_types.sections()}
    return any(
        isinstance(value, dict) and not (name == configuration.AUTH and _is_of_kthena(value))
        if name in sections
        else name in old_settings.RENAMED and not isinstance(value, dict)
        for name, value in content.items()
    )


def _is_of_kthena(auth: dict[str, Any]) -> bool:
    """Whether a section `auth` is that of Kthena's router, not that of the settings."""
    return not auth or bool({"issuer", "audiences", "jwksUri"} & auth.keys())


def _of_config_map(tree: Mapping, file: str, content: dict[str, Any]) -> Finding:
    """The error for a ConfigMap, naming the file it contains if recognized."""
    data = content.get("data")
    for key, text in data.items() if isinstance(data, dict) else ():
        path, inside = f"data.{key}", _parsed(text)
        if has_settings(inside):
            what, use = "these are the gateway's settings", "pass that with --config FILE"
        elif configuration.is_configuration(inside):
            what, use = _of_scheduler(inside), f"name that in the setting {_SCHEDULER.format('FILE')}"
        else:
            continue
        fix = f"save the text of {path} as a file, and {use}"
        return _finding(tree, file, f"{what}, in a ConfigMap", fix, path=path)
    return _finding(
        tree, file, "this is a ConfigMap, not the file in it", "save the text under data as a file"
    )


def _parsed(text: object) -> Any:
    if not isinstance(text, str):
        return None
    try:
        tree, _ = compose(text)
    except Unreadable:
        return None
    return plain(tree) if tree is not None else None


def _of_scheduler(content: Any) -> str:
    return (
        f"this is a scheduler configuration ({_PICKER})"
        if content.get("kind") == _PICKER
        else "this is the scheduler configuration of Kthena's router"
    )


def _finding(tree: Mapping, file: str, message: str, fix: str, *, path: str = "kind") -> Finding:
    place = place_of(tree, path)
    span = place.key if place.key is not None and not place.missing else None
    first = min((entry.key for entry in tree.entries.values()), default=tree.span)
    return Finding(
        file=file,
        severity="error",
        message=message,
        span=span or first,
        path=path if span is not None else "",
        suggestion=fix,
    )
