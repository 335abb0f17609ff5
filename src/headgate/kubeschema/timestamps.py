"""Times as Kubernetes writes them: RFC 3339 in UTC. Numbers are Unix seconds, from any clock."""

import datetime
import functools


def seconds(unix_s: float) -> str:
    """To the second, as in objects: `2026-01-31T08:15:00Z`."""
    return _second(int(unix_s))


@functools.lru_cache(maxsize=8)
def _second(unix_s: int) -> str:
    return _utc(unix_s).strftime("%Y-%m-%dT%H:%M:%SZ")


def microseconds(unix_s: float) -> str:
    """With six fractional digits, as in Leases (MicroTime), which may be renewed several times a second."""
    return nanoseconds(unix_s)[:-4] + "Z"


def nanoseconds(unix_s: float) -> str:
    """With nine fractional digits, as in log lines."""
    whole = int(unix_s)
    return _utc(whole).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int((unix_s - whole) * 1e9):09d}Z"


def parse(text: str) -> float:
    """The Unix time of an RFC 3339 time. Raises ValueError."""
    return datetime.datetime.fromisoformat(text).timestamp()


def _utc(whole_s: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(whole_s, datetime.UTC)
