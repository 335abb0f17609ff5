"""AWS Signature Version 4.

Signs the few kinds of requests that a download needs. The AWS SDK for Python would add 21 MB and another HTTP
client, and its streams of objects do not have the limits that downloads have here.
Algorithm: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import hashlib
import hmac
import time
import urllib.parse
from collections.abc import Mapping

from headgate.downloads.sources import Credentials


def quoted(text: str, safe: str = "") -> str:
    return urllib.parse.quote(text, safe=f"-_.~{safe}")


def query_text(query: Mapping[str, str]) -> str:
    """In the order and encoding that is signed."""
    return "&".join(f"{quoted(name)}={quoted(value)}" for name, value in sorted(query.items()))


def headers(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    region: str,
    credentials: Credentials | None,
    *,
    body: bytes = b"",
    now: float | None = None,
) -> dict[str, str]:
    """The headers that sign a request; none without credentials.

    `host` has the port, if it is in the URL; `path` is percent-encoded as in the URL; `now` is a Unix time.
    """
    if credentials is None:
        return {}
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    request = "\n".join((method, path, query_text(query), lines, names, digest))
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope},"
        f"SignedHeaders={names},Signature={_hmac(key, text).hex()}"
    )
    del signed["host"]
    return {**signed, "authorization": authorization}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
