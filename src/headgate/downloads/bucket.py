"""Buckets of S3 and of servers with its API."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager

import httpx2

from headgate.downloads import ranges, s3_pages, signing
from headgate.downloads.errors import ChangedError, DownloadError, Reason
from headgate.downloads.listing import MAX_FILES, Listing, Patterns, RemoteFile, checked
from headgate.downloads.sources import BucketSource

_MAX_PAGE_BYTES = 8 << 20
_MAX_PAGE_S = 120.0
_MAX_ERROR_BYTES = 64 << 10
_MAX_LOOKUPS = 1000
_LOOKUPS = 8
"""How many objects that were uploaded in parts are looked up for the size of their parts, and at a time."""
_ETAG_OF_PARTS = re.compile(r"[0-9a-f]{32}-([1-9][0-9]{0,4})")
_MD5 = re.compile(r"[0-9a-f]{32}")
_BAD_KEYS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "XAdminUserNotFound"}
)


class Bucket:
    def __init__(self, source: BucketSource) -> None:
        self._source = source
        url = httpx2.URL(source.endpoint)
        path = url.raw_path.decode().rstrip("/")
        self._host = url.netloc.decode()
        self._scheme = url.scheme
        if source.is_virtual_hosted:
            self._host = f"{source.bucket}.{self._host}"
        else:
            path = f"{path}/{source.bucket}"
        self._path = path
        self._http = ranges.new_client(follow_redirects=False)

    def list(self, patterns: Patterns) -> Listing:
        files = checked(str(self._source), self._files(), patterns)
        in_parts = [file for file in files if _ETAG_OF_PARTS.fullmatch(file.etag)][:_MAX_LOOKUPS]
        with futures.ThreadPoolExecutor(_LOOKUPS) as pool:
            known = {file.path: file for file in pool.map(self._with_part_size, in_parts)}
        return Listing(tuple(known.get(file.path, file) for file in files))

    def _files(self) -> Iterator[RemoteFile]:
        source, token, seen = self._source, "", 0
        while True:
            query = {"list-type": "2", "prefix": source.prefix, "encoding-type": "url"}
            page = self._page({**query, "continuation-token": token} if token else query)
            for found in page.objects:
                if not found.key.startswith(source.prefix):
                    raise self._refusal("it lists objects outside of the prefix")
                if not found.key.endswith("/"):  # such keys stand for directories
                    md5 = found.etag if _MD5.fullmatch(found.etag) else ""
                    yield RemoteFile(found.key[len(source.prefix) :], found.size, found.etag, md5=md5)
            seen += len(page.objects)
            if not page.next_token:
                return
            if page.next_token == token or not page.objects or seen > MAX_FILES:
                raise self._refusal(f"its listing does not end, or has more than {MAX_FILES:,} objects")
            token = page.next_token

    def _page(self, query: Mapping[str, str]) -> s3_pages.Page:
        path = self._path or "/"
        url = f"{self._scheme}://{self._host}{path}?{signing.query_text(query)}"
        headers = self._signed("GET", path, query)
        with (
            ranges.failures_explained(self._host),
            self._http.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != 200:
                raise ranges.temporary(response) or self._explained(response)
            body = self._body(response, _MAX_PAGE_BYTES)
        try:
            return s3_pages.page(body)
        except ValueError as error:
            raise self._refusal(
                f"{self._source.endpoint} does not respond as S3 does ({error}); check ENDPOINT"
            ) from error

    def _body(self, response: httpx2.Response, limit: int) -> bytes:
        """Of a response that is not longer than this."""
        body, until = bytearray(), time.monotonic() + _MAX_PAGE_S
        for piece in response.iter_raw():
            body += piece
            if len(body) > limit or time.monotonic() > until:
                raise self._refusal(
                    f"a response has more than {limit >> 10} KiB, or takes more than {_MAX_PAGE_S:g} s"
                )
        return bytes(body)

    def _signed(self, method: str, path: str, query: Mapping[str, str]) -> dict[str, str]:
        source = self._source
        signed = signing.headers(method, self._host, path, query, source.region, source.credentials)
        return {**signed, "Accept-Encoding": "identity", "User-Agent": "headgate"}

    @contextmanager
    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[Iterator[bytes]]:
        path = self._object_path(file)
        headers = self._signed("GET", path, {})
        if file.etag:
            headers["If-Match"] = f'"{file.etag}"'
        url = f"{self._scheme}://{self._host}{path}"
        with ranges.opened(self._http, url, headers, start, end, file.size, self._explained) as pieces:
            yield pieces

    def _with_part_size(self, file: RemoteFile) -> RemoteFile:
        """With its ETag as a hash, if that is one of parts of equal size."""
        headers = self._head(file, {"partNumber": "1"})
        size = _length(headers)
        if not size or -(-file.size // size) != _count_of(file.etag) or _is_opaque(headers):
            return file
        return dataclasses.replace(file, md5=file.etag, md5_part_bytes=size)

    def _object_path(self, file: RemoteFile) -> str:
        return f"{self._path}/{signing.quoted(self._source.prefix + file.path, safe='/')}"

    def is_hash_known(self, file: RemoteFile) -> bool:
        if _is_opaque(self._head(file, {})):
            return False
        size = file.md5_part_bytes
        if not size:
            return True
        # The first part has told the size of all of them, which is a guess.
        for number in range(1, _count_of(file.etag) + 1):
            part = self._head(file, {"partNumber": str(number)})
            if _length(part) != min(size, file.size - (number - 1) * size):
                return False
        return True

    def _head(self, file: RemoteFile, query: Mapping[str, str]) -> httpx2.Headers:
        path = self._object_path(file)
        url = f"{self._scheme}://{self._host}{path}?{signing.query_text(query)}".rstrip("?")
        headers = self._signed("HEAD", path, query)
        with (
            ranges.failures_explained(self._host),
            self._http.stream("HEAD", url, headers=headers) as response,
        ):
            if response.status_code not in (200, 206):
                raise ranges.temporary(response) or self._explained(response)
            return response.headers

    def close(self) -> None:
        self._http.close()

    def _refusal(self, problem: str) -> DownloadError:
        return DownloadError(Reason.REFUSED, f"{self._source} is refused: {problem}")

    def _explained(self, response: httpx2.Response) -> Exception:
        """The error that this response stands for."""
        source, status = self._source, response.status_code
        code, message = s3_pages.failure(self._body(response, _MAX_ERROR_BYTES))
        told = (
            f"{source.endpoint} returned {status}"
            + (f" {code}" if code else "")
            + (f": {message}" if message else "")
        )
        if code == "NoSuchBucket":
            return DownloadError(
                Reason.NOT_FOUND,
                f"{source}: {source.endpoint} has no bucket {source.bucket}; check the name and ENDPOINT",
            )
        if code == "NoSuchKey":
            return ChangedError(f"{source}: an object was removed")
        region = response.headers.get("x-amz-bucket-region", source.region)
        if region != source.region:
            return DownloadError(
                Reason.INVALID_SOURCE,
                f"{source}: the bucket is in another region; set AWS_REGION={region[:40]}",
            )
        if status in (401, 403) and source.credentials is None:
            return DownloadError(
                Reason.NO_CREDENTIALS,
                f"{source}: {told}; set ACCESS_KEY and SECRET_KEY, for example by envFrom",
            )
        if code in _BAD_KEYS or status == 401:
            return DownloadError(
                Reason.WRONG_CREDENTIALS, f"{source}: {told}; check ACCESS_KEY and SECRET_KEY"
            )
        if code == "RequestTimeTooSkewed":
            return DownloadError(
                Reason.WRONG_CREDENTIALS, f"{source}: {told}; correct the clock of this machine"
            )
        if status == 403:
            return DownloadError(
                Reason.WRONG_CREDENTIALS,
                f"{source}: {told}; allow the key to list the bucket and to read its objects",
            )
        if status == 404:
            return DownloadError(Reason.NOT_FOUND, f"{source}: {told}; check the bucket and ENDPOINT")
        return DownloadError(Reason.UNREACHABLE, f"{source}: {told}; check ENDPOINT and AWS_REGION")


def _count_of(etag: str) -> int:
    return int(etag.partition("-")[2])


def _length(headers: httpx2.Headers) -> int:
    text = headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0


def _is_opaque(headers: httpx2.Headers) -> bool:
    """Whether the ETag is no hash: the object is encrypted with a key of KMS or of a customer."""
    kind = headers.get("x-amz-server-side-encryption", "")
    return kind.startswith("aws:kms") or "x-amz-server-side-encryption-customer-algorithm" in headers
