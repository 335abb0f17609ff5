"""Kubeconfig files: which ones apply, and how to merge several, as in kubectl.

The first file takes precedence: the first current-context, the first entry of a name. A path in a file is
relative to the folder of that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

USUAL = Path("~/.kube/config")
_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def named() -> list[Path]:
    """The files that $KUBECONFIG names; none if it is unset or empty."""
    return [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]


def chosen(files: Sequence[Path], context: str | None) -> SingleConfig:
    """One context of these files; without files, the in-cluster account or the usual file.

    Raises ConfigError, which names the file and the fix.
    """
    if not files:
        if (account := _in_cluster()) is not None:
            return account
        files = named() or [USUAL]
    return _context(merged(files), context, " and ".join(str(file) for file in files))


def source(files: Sequence[Path]) -> str:
    """What `chosen` reads, in words."""
    if not files and _in_cluster() is not None:
        return "the in-cluster account"
    return "kubeconfig " + " and ".join(str(file) for file in files or named() or [USUAL])


def _in_cluster() -> SingleConfig | None:
    try:
        return _only(KubeConfig.from_service_account())
    except (ConfigError, KeyError):
        return None


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """The merged content of several files. Missing files are skipped, unless all are missing."""
    present = [file.expanduser() for file in files if file.expanduser().is_file()]
    if not present:
        raise ConfigError(f"there is no file {' or '.join(str(file) for file in files)}")
    found: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    current = ""
    for file in present:
        content = _read(file)
        current = current or content.get("current-context") or ""
        for section, key in _SECTIONS.items():
            for name, entry in _entries(file, content, section, key):
                found[section].setdefault(name, entry)
    sections = {
        section: [{"name": name, _SECTIONS[section]: entry} for name, entry in entries.items()]
        for section, entries in found.items()
    }
    return {"current-context": current, **sections}


def _read(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text()) or {}
    except (OSError, yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read as a kubeconfig: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{file} is no kubeconfig: it is a {type(content).__name__}, not a mapping")
    return content


def _entries(
    file: Path, content: dict[str, Any], section: str, key: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and contents of a section, with absolute paths."""
    listed = content.get(section) or []
    if not isinstance(listed, list):
        raise ConfigError(f"{file} is no kubeconfig: {section} is not a list")
    for number, entry in enumerate(listed):
        inner = entry.get(key) if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or "name" not in entry or not isinstance(inner or {}, dict):
            raise ConfigError(f"{file} is no kubeconfig: {section}[{number}] needs a name and a {key}")
        yield str(entry["name"]), _absolute(dict(inner or {}), file.absolute().parent)


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    for name in _PATHS:
        if entry.get(name):
            entry[name] = str(folder / entry[name])
    plugin = entry.get("exec")
    # As in a shell, a bare name is looked up on the PATH.
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        entry["exec"] = plugin | {"command": str(folder / plugin["command"])}
    return entry


def _context(config: dict[str, Any], name: str | None, where: str) -> SingleConfig:
    contexts = {entry["name"]: entry["context"] for entry in config["contexts"]}
    known = ", ".join(sorted(contexts)) or "none"
    if not (name := name or config["current-context"]):
        raise ConfigError(f"no current-context is set in {where}; contexts: {known}")
    if name not in contexts:
        raise ConfigError(f'there is no context "{name}" in {where}; contexts: {known}')
    for section, key in (("clusters", "cluster"), ("users", "user")):
        wanted = contexts[name].get(key)
        if wanted and wanted not in {entry["name"] for entry in config[section]}:
            raise ConfigError(f'the context "{name}" names the {key} "{wanted}", which is not in {where}')
    if not contexts[name].get("cluster"):
        raise ConfigError(f'the context "{name}" in {where} names no cluster')
    return _only(KubeConfig.from_dict(config | {"current-context": name}))


def _only(config: KubeConfig) -> SingleConfig:
    found = config.get()
    assert found
    return found
