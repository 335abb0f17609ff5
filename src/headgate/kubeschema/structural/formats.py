"""The string formats that are checked; any other format is only documentation, as in Kubernetes.

Unlike Kubernetes, it does not check ISBNs and credit card numbers.
"""

import datetime
import ipaddress
import re
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Final

from headgate.kubeschema import duration

__all__ = ["FORMATS"]

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_IN_URI = re.compile(r"[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})|^[^/?#]*(//[^/?#\s]*)?\s")
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+|[^@<>]*<[^@\s<>]+@[^@\s<>]+>")
_HOSTNAME = re.compile(
    r"([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?\.?"
)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    date, _, time = text.replace("t", "T").partition("T")
    match = _TIME.fullmatch(time)
    return _is_date(date) and match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_duration(text: str) -> bool:
    """Only Go's durations: clients reject the "3 days" that kube-apiserver accepts here."""
    return _accepts(duration.parse_ns, text)


def _accepts(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    """A URI with a scheme, or an absolute path, as in Go's url.ParseRequestURI."""
    if not text or _NOT_IN_URI.search(text):
        return False
    if text.startswith("/"):
        return True
    return _SCHEME.match(text) is not None and _accepts(lambda uri: urllib.parse.urlsplit(uri).port, text)


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII) is not None


def _is_uuid_of(version: int) -> Callable[[str], bool]:
    return lambda text: _is_uuid(text) and uuid.UUID(text).version == version


def _is_uuid(text: str) -> bool:
    return len(text) in (32, 36) and _accepts(uuid.UUID, text)


_COLOR_PART = r"\s*([01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])\s*"

FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "cidr": lambda text: (
        "/" in text and _accepts(lambda cidr: ipaddress.ip_network(cidr, strict=False), text)
    ),
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "ipv4": lambda text: _accepts(ipaddress.IPv4Address, text),
    "ipv6": lambda text: _accepts(ipaddress.IPv6Address, text),
    "bsonobjectid": _matches(r"[0-9a-f]{24}"),
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hexcolor": _matches(r"#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "hostname": lambda text: len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None,
    "mac": _matches(r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|([0-9a-f]{4}\.){2}[0-9a-f]{4}"),
    "rgbcolor": _matches(rf"rgb\({_COLOR_PART},{_COLOR_PART},{_COLOR_PART}\)"),
    "ssn": _matches(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "uri": _is_uri,
    "uuid": _is_uuid,
    "uuid3": _is_uuid_of(3),
    "uuid4": _is_uuid_of(4),
    "uuid5": _is_uuid_of(5),
}
