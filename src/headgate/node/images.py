"""What images mean on this machine: the commands that run in their place; and which directories claims are.

Kubernetes takes a container's command, arguments and environment from the image where the manifest has none.
Images are not pulled here, so a file says for patterns of image names what they would have had.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate import api

_FIELDS = ("image", "command", "args", "env", "wrap")


class ImagesError(ValueError):
    """The document is not valid; the message has one line for each problem, with the path of the field."""


@dataclass(frozen=True)
class ImageProgram:
    """What an image runs. Arguments and variables are defaults, which a container may replace."""

    pattern: str
    command: Sequence[str]
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    wraps: bool = False
    """Whether a container's own command becomes arguments of `command`, instead of replacing it."""

    def matches(self, image: str) -> bool:
        """Case-sensitive; `*` stands for anything. A pattern without a tag matches all tags and digests."""
        if fnmatch.fnmatchcase(image, self.pattern):
            return True
        return not _has_version(self.pattern) and fnmatch.fnmatchcase(_repository(image), self.pattern)


@dataclass(frozen=True)
class ImagePrograms:
    """The first program that matches counts."""

    programs: Sequence[ImageProgram] = ()
    source: str = ""
    """The file, for messages; empty if none was given."""
    claims: Mapping[tuple[str, str], Path] = field(default_factory=dict)
    """Directories that stand for claims, by namespace and name."""

    def find(self, image: str) -> ImageProgram | None:
        return next((each for each in self.programs if image and each.matches(image)), None)

    def hint(self, image: str) -> str:
        """What to do about an image that has no program."""
        if not self.source:
            return f"give the node a file with `--images FILE` that says what {image!r} runs"
        return f"add an entry that matches {image!r} to {self.source}, the file of --images"


_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")

NO_IMAGES = ImagePrograms()


def command_of(container: api.Container, program: ImageProgram | None) -> list[str]:
    """Command and arguments, empty if nothing says what to run.

    As in Kubernetes, a container's own command replaces the command and the arguments of the image, unless
    the program wraps it.
    """
    if container.command and program is not None and program.wraps:
        return [*program.command, *container.command, *container.args]
    if container.command or program is None:
        return [*container.command, *container.args] if container.command else []
    return [*program.command, *(container.args or program.args)]


def parse(document: object, source: str) -> ImagePrograms:
    """From the content of a file. Raises ImagesError."""
    problems: list[str] = []
    programs = list(_programs(document, problems))
    problems += _repeated(programs)
    claims = dict(_claims(document, Path(source).absolute().parent, problems))
    if problems:
        raise ImagesError("\n".join(f"{source}: {each}" for each in problems))
    return ImagePrograms(programs, source, claims)


def _programs(document: object, problems: list[str]) -> Iterator[ImageProgram]:
    if not isinstance(document, dict) or not isinstance(document.get("images", document.get("claims")), list):
        problems.append("must be a mapping with the list `images`, of entries with `image` and `command`")
        return
    known = ("images", "claims")
    problems += [f"{name}: unknown field; known are images, claims" for name in document if name not in known]
    for index, entry in enumerate(document.get("images") or ()):
        where = f"images[{index}]"
        if not isinstance(entry, dict):
            problems.append(f"{where}: must be a mapping with `image` and `command`")
            continue
        before = len(problems)
        problems += _problems(entry, where)
        if len(problems) == before:
            yield ImageProgram(
                entry["image"],
                entry["command"],
                entry.get("args") or (),
                entry.get("env") or {},
                entry.get("wrap", False),
            )


def _claims(document: object, folder: Path, problems: list[str]) -> Iterator[tuple[tuple[str, str], Path]]:
    """Entries of the list `claims`; directories are relative to the folder of the file."""
    listed = document.get("claims") if isinstance(document, dict) else None
    if listed is not None and not isinstance(listed, list):
        problems.append("claims: must be a list of entries with `claim` and `directory`")
        return
    for index, entry in enumerate(listed or ()):
        where = f"claims[{index}]"
        if not isinstance(entry, dict) or set(entry) != {"claim", "directory"}:
            problems.append(f"{where}: must be a mapping with `claim` and `directory`, and nothing else")
            continue
        namespace, slash, name = str(entry["claim"]).rpartition("/")
        directory = folder / Path(str(entry["directory"])).expanduser()
        if not _CLAIM.match(name) or (slash and not _CLAIM.match(namespace)):
            problems.append(f"{where}.claim: {entry['claim']!r} is no name of a claim, nor NAMESPACE/NAME")
        elif not directory.is_dir():
            problems.append(f"{where}.directory: {directory} is not a directory")
        else:
            yield (namespace or "default", name), directory.resolve()


def _problems(entry: Mapping[Any, Any], where: str) -> Iterator[str]:
    for name in entry:
        if name not in _FIELDS:
            yield f"{where}.{name}: unknown field; known are {', '.join(_FIELDS)}"
    if not isinstance(entry.get("image"), str) or not entry["image"]:
        yield f"{where}.image: must be a pattern of image names, such as vllm/vllm-openai"
    if not entry.get("command"):
        yield f"{where}.command: must be a list of words, such as [python3, -m, server]"
    for name in ("command", "args"):
        yield from _word_problems(entry.get(name) or [], f"{where}.{name}")
    if not isinstance(entry.get("wrap", False), bool):
        yield f"{where}.wrap: {entry['wrap']!r} is not true or false"
    variables = entry.get("env") or {}
    if not isinstance(variables, dict):
        yield f"{where}.env: must be a mapping of names to texts"
        return
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            yield f"{where}.env.{name}: {value!r} is not a text; put it in quotes"


def _word_problems(words: object, where: str) -> Iterator[str]:
    if not isinstance(words, list):
        yield f"{where}: must be a list of words"
        return
    for index, word in enumerate(words):
        if not isinstance(word, str):
            yield f"{where}[{index}]: {word!r} is not a text; put it in quotes"


def _repeated(programs: Sequence[ImageProgram]) -> Iterator[str]:
    seen: set[str] = set()
    for each in programs:
        if each.pattern in seen:
            yield f"images: {each.pattern!r} has two entries, of which the second would never be used"
        seen.add(each.pattern)


def _has_version(image: str) -> bool:
    return "@" in image or ":" in image.rpartition("/")[2]


def _repository(image: str) -> str:
    """Without digest and tag; a colon before the last slash belongs to a port."""
    name = image.partition("@")[0]
    path, slash, last = name.rpartition("/")
    return path + slash + last.partition(":")[0]
