"""Reading manifests: files, directories and standard input, with every error and where it stands."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_FILES = 1000

_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap")
"""Kinds that others refer to, and that are therefore applied before them."""

_METADATA = (
    ("name", str, "text (in quotes, if it looks like a number)"),
    ("namespace", str, "text (in quotes, if it looks like a number)"),
    ("annotations", dict, "a mapping"),
)
"""What is read here of an object; everything else is for the API server to judge."""


class Manifest(NamedTuple):
    """One object and where it was read."""

    source: str
    """File and line, as "routes.yaml:12"."""
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.content["kind"])


class ManifestErrors(Exception):  # noqa: N818 - several of them
    """Everything that was wrong with the files; one line each in `errors`."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def load(paths: list[str]) -> list[Manifest]:
    """The objects of files, of the manifests in directories, and of standard input ("-").

    They are ordered so that what others refer to comes first. Raises ManifestErrors with all errors.
    """
    manifests: list[Manifest] = []
    errors: list[str] = []
    for path in paths:
        try:
            for source, text in _texts(path):
                for manifest, error in _documents(source, text):
                    if error:
                        errors.append(error)
                    elif manifest:
                        manifests.append(manifest)
        except OSError as error:
            errors.append(f"{path}: {error.strerror or error}")
    if not errors and not manifests:
        errors.append(f"{', '.join(paths)}: no manifests found ({', '.join(SUFFIXES)})")
    if errors:
        raise ManifestErrors(errors)
    return sorted(manifests, key=lambda manifest: _rank(manifest.kind))


def _rank(kind: str) -> int:
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _texts(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "<stdin>", sys.stdin.read(MAX_FILE_BYTES)
        return
    root = Path(path)
    if not root.is_dir():
        yield path, _text(root)
        return
    files = sorted(file for file in root.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if len(files) > MAX_FILES:
        raise OSError(None, f"has more than {MAX_FILES} manifests")
    for file in files:
        yield str(file), _text(file)


def _text(file: Path) -> str:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise OSError(None, f"is longer than {MAX_FILE_BYTES} bytes")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OSError(None, f"is not UTF-8: {error.reason} at byte {error.start}") from error


def _documents(source: str, text: str) -> Iterator[tuple[Manifest | None, str]]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            where = f"{source}:{node.start_mark.line + 1}"
            content = loader.construct_document(node)
            if content is not None:
                yield from _objects(where, content)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        yield None, f"{source}{place}: not YAML: {getattr(error, 'problem', None) or error}"
    finally:
        loader.dispose()


def _objects(where: str, content: Any) -> Iterator[tuple[Manifest | None, str]]:
    """The object itself, or those of a List."""
    if isinstance(content, dict) and content.get("kind") == "List" and isinstance(content.get("items"), list):
        for item in content["items"]:
            yield from _objects(where, item)
        return
    problem = _problem(content)
    if problem:
        yield None, f"{where}: {problem}"
    else:
        yield Manifest(where, content), ""


def _problem(content: Any) -> str:
    if not isinstance(content, dict):
        return f"a manifest is a mapping with apiVersion, kind and metadata, not {type(content).__name__}"
    missing = [field for field in ("apiVersion", "kind") if not isinstance(content.get(field), str)]
    metadata = content.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") in (None, ""):
        missing.append("metadata.name")
    if missing:
        return f"lacks {' and '.join(missing)}"
    assert isinstance(metadata, dict)
    return "; ".join(
        f"metadata.{field}: must be {wanted}, not {metadata[field]!r:.64}"
        for field, kind, wanted in _METADATA
        if metadata.get(field) is not None and not isinstance(metadata[field], kind)
    )
