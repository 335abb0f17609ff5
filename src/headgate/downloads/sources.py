"""Where a model comes from: the text of a source, and what the environment adds to it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.downloads.errors import DownloadError, Reason

HUB_ENDPOINT = "https://huggingface.co"
_REPOSITORY = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)
_REVISION = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KINDS = "hf://org/name[@revision], s3://bucket/prefix, pvc://claim/path or a directory"


@dataclass(frozen=True)
class HubSource:
    repository: str
    revision: str
    """A branch, tag or commit; empty for the default branch."""
    endpoint: str
    token: str | None = field(repr=False)

    def __str__(self) -> str:
        return f"hf://{self.repository}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True)
class Credentials:
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class BucketSource:
    bucket: str
    prefix: str
    """Ends with a slash, unless it is empty."""
    endpoint: str
    region: str
    credentials: Credentials | None
    """None: requests are not signed, as for public buckets."""
    is_virtual_hosted: bool = False
    """The bucket is part of the host name instead of the path."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True)
class DirectorySource:
    path: Path
    text: str

    def __str__(self) -> str:
        return self.text


Source = HubSource | BucketSource | DirectorySource


def parse(text: str, environment: Mapping[str, str]) -> Source:
    """Return the source that `text` names, with the credentials and endpoints of the environment.

    A claim of pvc:// is mounted at /CLAIM. Raises DownloadError.
    """
    scheme, separator, rest = text.partition("://")
    if any(ord(each) < 32 for each in text) or not text:
        raise DownloadError(Reason.INVALID_SOURCE, f"invalid source {text!r}: write {_KINDS}")
    if not separator:
        return _directory(text, Path(text))
    match scheme:
        case "hf":
            return _hub(text, rest, environment)
        case "s3":
            return _bucket(text, rest, environment)
        case "pvc":
            return _directory(text, Path("/", *[part for part in rest.split("/") if part]))
        case "file":
            return _directory(text, Path(rest))
    raise DownloadError(Reason.INVALID_SOURCE, f"source {text}: {scheme}:// is not supported; write {_KINDS}")


def cache_directory(cache: Path, uri: str) -> Path:
    """The directory of a source in a shared cache: the MD5 hash of its URI, as in Kthena."""
    return cache / hashlib.md5(uri.encode(), usedforsecurity=False).hexdigest()


def _hub(text: str, rest: str, environment: Mapping[str, str]) -> HubSource:
    repository, _, revision = rest.rstrip("/").partition("@")
    revision = revision or environment.get("HF_REVISION", "")
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise DownloadError(
            Reason.INVALID_SOURCE, f"source {text}: write a repository as hf://org/name[@revision]"
        )
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise DownloadError(
            Reason.INVALID_SOURCE,
            f"source {text}: {revision!r} is not a branch, tag or commit; write hf://org/name@revision",
        )
    endpoint = _endpoint(environment.get("HF_ENDPOINT") or HUB_ENDPOINT, "HF_ENDPOINT")
    token = environment.get("HF_AUTH_TOKEN") or environment.get("HF_TOKEN")
    return HubSource(repository, revision, endpoint, token.strip() if token else None)


def _bucket(text: str, rest: str, environment: Mapping[str, str]) -> BucketSource:
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if not _BUCKET.fullmatch(bucket):
        raise DownloadError(
            Reason.INVALID_SOURCE,
            f"source {text}: {bucket!r} is not the name of a bucket; write s3://bucket/prefix",
        )

    def first(*names: str) -> str:
        return next((environment[name].strip() for name in names if environment.get(name)), "")

    region = first("REGION", "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = first("ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    return BucketSource(
        bucket,
        f"{prefix}/" if prefix else "",
        _endpoint(endpoint or f"https://s3.{region}.amazonaws.com", "ENDPOINT"),
        region,
        _credentials(text, first),
        first("ADDRESSING_STYLE") == "virtual",
    )


def _credentials(text: str, first: Callable[..., str]) -> Credentials | None:
    access_key = first("ACCESS_KEY", "AWS_ACCESS_KEY_ID")
    secret_key = first("SECRET_KEY", "AWS_SECRET_ACCESS_KEY")
    if bool(access_key) != bool(secret_key):
        missing = "SECRET_KEY" if access_key else "ACCESS_KEY"
        raise DownloadError(Reason.NO_CREDENTIALS, f"source {text}: the variable {missing} is missing")
    return Credentials(access_key, secret_key, first("AWS_SESSION_TOKEN")) if access_key else None


def _endpoint(url: str, variable: str) -> str:
    """Without a final slash, and with a host in lower case; http:// is for servers inside a cluster."""
    url = url if "://" in url else f"https://{url}"
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        raise DownloadError(
            Reason.INVALID_SOURCE, f"{variable}={url}: write the endpoint as https://host[:port]"
        )
    scheme, _, rest = url.rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.lower()}{slash}{path}"


def _directory(text: str, path: Path) -> DirectorySource:
    if not path.is_absolute() or len(path.parts) < 2:
        raise DownloadError(
            Reason.INVALID_SOURCE,
            f"source {text}: write the absolute path of a directory, or one of {_KINDS}",
        )
    return DirectorySource(path, text)
