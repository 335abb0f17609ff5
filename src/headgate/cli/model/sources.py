"""Where weights come from: URIs, and directories of this machine, which become claims.

The API knows hf://, s3:// and pvc:// only. A node beside the embedded API server has a directory of its own
for each claim. So a local directory is served as pvc://NAME, and the directory of that claim is a link to it.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LocalClaim", "Source", "SourceError", "name_from", "parse", "parse_cache"]

_SCHEMES = ("hf://", "s3://", "pvc://")
_HUB = re.compile(r"https?://(?:www\.)?huggingface\.co/([^/?#]+/[^/?#]+)")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?\Z")
_OTHER = {
    "gs": "copy the weights to a bucket with an S3 API, or to a directory",
    "ms": "download the weights to a directory, and name that",
    "obs": "OBS has an S3 API: use s3://BUCKET/PATH with --env ENDPOINT=URL",
    "file": "name the directory without file://",
    "http": "download the weights to a directory, and name that",
    "https": "download the weights to a directory, and name that",
}
_LONGEST_NAME = 50
"""Of a name that is derived: names of children are longer."""


class SourceError(ValueError):
    """The source cannot be served; the message names it and the fix."""


@dataclass(frozen=True)
class LocalClaim:
    """A directory of this machine, and the claim that stands for it."""

    directory: Path
    name: str


@dataclass(frozen=True)
class Source:
    uri: str
    """As in modelURI or artifactURL."""
    local: LocalClaim | None = None


def parse(text: str) -> Source:
    """A URI, or an existing directory. Raises SourceError."""
    if text.startswith(_SCHEMES):
        rest = text.partition("://")[2]
        if not rest.strip("/") or rest != rest.strip() or any(ord(each) < 0x21 for each in rest):
            raise SourceError(f"{text!r}: nothing usable follows {text.partition('://')[0]}://")
        return Source(text)
    if "://" in text:
        raise SourceError(f"{text!r}: {_other(text)}")
    path = Path(text).expanduser()
    if path.is_dir():
        return _local(path)
    if path.exists():
        raise SourceError(f"{text!r} is a file: name the directory that it is in")
    if text.startswith((".", "/", "~")) or not _REPOSITORY.match(text):
        raise SourceError(f"{text!r}: there is no such directory")
    raise SourceError(f"{text!r}: no directory of this name; for a repository of the hub, write hf://{text}")


def parse_cache(text: str) -> str:
    """A cacheURI: hostpath://, pvc://, or a directory of this machine. Raises SourceError."""
    if text.startswith(("hostpath:///", "pvc://")) and text.partition("://")[2].strip("/"):
        return text
    if "://" in text:
        raise SourceError(f"{text!r}: a cache is hostpath:///DIRECTORY or pvc://CLAIM")
    return f"hostpath://{Path(text).expanduser().absolute()}"


def name_from(text: str) -> str:
    """A name for the model, from the last part of its source. Raises SourceError."""
    rest = text.partition("://")[2] or os.path.abspath(os.path.expanduser(text))
    last = re.split(r"[@?#]", rest)[0].rstrip("/").rpartition("/")[2]
    name = _slug(last)
    if not name:
        raise SourceError(f"{text!r} has no letter or digit to make a name of: give one with --name")
    return name


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LONGEST_NAME].strip("-")


def _local(path: Path) -> Source:
    directory = Path(os.path.abspath(path))
    if not any(directory.iterdir()):
        raise SourceError(f"{str(path)!r}: the directory is empty")
    mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    claim = LocalClaim(directory, "-".join(filter(None, (_slug(directory.name), mark))))
    return Source(f"pvc://{claim.name}", claim)


def _other(text: str) -> str:
    scheme = text.partition("://")[0]
    if found := _HUB.match(text):
        return f"write hf://{found[1]}"
    remedy = _OTHER.get(scheme, "known are hf://, s3://, pvc:// and directories")
    return f"unknown scheme {scheme}://; {remedy}"
