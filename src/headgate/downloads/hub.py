"""Repositories of a Hugging Face hub.

The library of the hub lists the files, names their addresses and sends the token. Their content is read here,
in ranges, because a partial download has to survive its process, and may be continued by another one. Files
are read at the commit that the listing returned, so that they belong together even if the branch moves.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx2
import huggingface_hub
from huggingface_hub import errors as hub_errors

from headgate.downloads import ranges
from headgate.downloads.errors import DownloadError, Reason, TemporaryError
from headgate.downloads.listing import Listing, Patterns, RemoteFile, checked
from headgate.downloads.sources import HUB_ENDPOINT, HubSource

_MAX_LISTING_BYTES = 32 << 20
_MAX_LISTING_S = 120.0
_SHA1 = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class _Bounded(httpx2.SyncByteStream):
    """A response of the hub's API, of limited size and duration."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        until, received = time.monotonic() + _MAX_LISTING_S, 0
        for piece in self._stream:
            received += len(piece)
            if received > _MAX_LISTING_BYTES or time.monotonic() > until:
                raise httpx2.DecodingError(
                    f"a response of more than {_MAX_LISTING_BYTES >> 20} MiB or {_MAX_LISTING_S:g} s"
                )
            yield piece

    def is_hash_known(self, file: RemoteFile) -> bool:
        return True

    def close(self) -> None:
        self._stream.close()


def _bound(response: httpx2.Response) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx2.DecodingError("a compressed response, although none was asked for")
    if isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _Bounded(response.stream)


def _client() -> httpx2.Client:
    return httpx2.Client(
        follow_redirects=True,
        max_redirects=5,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bound]},
    )


_prepared = threading.Lock()
_is_prepared = False


def _prepare() -> None:
    """Make the library use a client with limits, and send nothing but the requests for a repository."""
    global _is_prepared
    with _prepared:
        if not _is_prepared:
            huggingface_hub.set_client_factory(_client)
            huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
            _is_prepared = True


class Hub:
    def __init__(self, source: HubSource) -> None:
        _prepare()
        self._source = source
        token = source.token
        if token is None and source.endpoint == HUB_ENDPOINT:
            token = huggingface_hub.get_token()
        self._token = token
        self._api = huggingface_hub.HfApi(endpoint=source.endpoint, token=token or False)
        self._headers = {"User-Agent": "headgate"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._commit = ""
        self._http = ranges.new_client(follow_redirects=True)

    def list(self, patterns: Patterns) -> Listing:
        source = self._source
        try:
            with ranges.failures_explained(httpx2.URL(source.endpoint).host):
                info = self._api.model_info(
                    source.repository, revision=source.revision or None, files_metadata=True, timeout=30.0
                )
                files = [_file(sibling) for sibling in info.siblings or []]
                self._commit = str(info.sha or "")
        except TemporaryError as error:
            if isinstance(cause := error.__cause__, hub_errors.HfHubHTTPError):
                raise ranges.temporary(cause.response) or self._explained(cause.response) from error
            if isinstance(cause, httpx2.DecodingError):
                raise DownloadError(Reason.REFUSED, f"{source} is refused: the hub sent {cause}") from error
            raise
        except hub_errors.HFValidationError as error:
            raise DownloadError(Reason.INVALID_SOURCE, f"source {source}: {error}") from error
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
            raise DownloadError(
                Reason.REFUSED,
                f"{source.endpoint} does not respond as a hub does; check HF_ENDPOINT "
                f"({type(error).__name__}: {error})",
            ) from error
        return Listing(checked(str(source), files, patterns), self._commit)

    def read(self, file: RemoteFile, start: int, end: int) -> AbstractContextManager[Iterator[bytes]]:
        url = huggingface_hub.hf_hub_url(
            self._source.repository,
            file.path,
            revision=self._commit or self._source.revision or None,
            endpoint=self._source.endpoint,
        )
        return ranges.opened(self._http, url, self._headers, start, end, file.size, self._explained)

    def is_hash_known(self, file: RemoteFile) -> bool:
        return True

    def close(self) -> None:
        self._http.close()

    def _explained(self, response: httpx2.Response) -> Exception:
        """The error that this response stands for."""
        source, status = self._source, response.status_code
        code = response.headers.get("X-Error-Code", "")
        has_token = self._token is not None
        if code == "GatedRepo":
            page = f"{source.endpoint}/{source.repository}"
            fix = (
                "the account of the token"
                if has_token
                else "your account, then set HF_AUTH_TOKEN to its token"
            )
            return DownloadError(Reason.GATED, f"{source} is gated: request access at {page} with {fix}")
        if code == "RevisionNotFound":
            return DownloadError(
                Reason.NO_SUCH_REVISION,
                f"{source} has no revision {source.revision!r}: name a branch, tag or commit as hf://org/name@revision",
            )
        if status == 401 and has_token and code != "RepoNotFound":
            return DownloadError(
                Reason.WRONG_CREDENTIALS,
                f"{source}: {source.endpoint} does not accept the token; set HF_AUTH_TOKEN to a valid one",
            )
        if code == "RepoNotFound" or status in (401, 404):
            return self._not_found(has_token)
        if status == 403:
            return DownloadError(
                Reason.WRONG_CREDENTIALS if has_token else Reason.NO_CREDENTIALS,
                f"{source}: access denied; set HF_AUTH_TOKEN to a token that may read this repository",
            )
        return DownloadError(
            Reason.UNREACHABLE, f"{source}: {source.endpoint} returned {status}; check HF_ENDPOINT"
        )

    def _not_found(self, has_token: bool) -> DownloadError:
        source = self._source
        if has_token:
            fix = "check the name, and that the account of the token may read it"
        else:
            fix = "check the name; if it is private, set HF_AUTH_TOKEN to a token that may read it"
        return DownloadError(
            Reason.NOT_FOUND, f"{source.endpoint} has no repository {source.repository}: {fix}"
        )


def _file(sibling: Any) -> RemoteFile:
    lfs = sibling.lfs
    size = sibling.size if lfs is None else lfs.size
    if not isinstance(size, int) or not isinstance(sibling.rfilename, str):
        raise ValueError("a file without a size or name")
    if lfs is not None:
        if not _SHA256.fullmatch(lfs.sha256):
            raise ValueError("a file whose hash is not SHA-256")
        return RemoteFile(sibling.rfilename, size, etag=lfs.sha256, sha256=lfs.sha256)
    blob = str(sibling.blob_id or "")
    return RemoteFile(sibling.rfilename, size, etag=blob, git_sha1=blob if _SHA1.fullmatch(blob) else "")
