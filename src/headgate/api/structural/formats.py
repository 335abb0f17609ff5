"""The formats of strings that are checked; any other format is a remark for readers, as in Kubernetes."""

import datetime
import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import Final

from headgate.api import duration

__all__ = ["FORMATS"]

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE)
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
    """Go's durations only: clients refuse the "3 days" that kube-apiserver lets pass here."""
    return _accepts(duration.parse_ns, text)


def _accepts(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


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
    "uuid": lambda text: len(text) in (32, 36) and _accepts(uuid.UUID, text),
}
