"""Valid names, labels and keys in Kubernetes, with its messages.

Every function yields the complaints about one text; none if it is valid.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

__all__ = [
    "config_key",
    "dns_label",
    "is_label",
    "label_value",
    "port_name",
    "qualified_name",
    "service_name",
    "subdomain",
]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_PORT = re.compile(r"[-a-z0-9]+")
_LETTER = re.compile(r"[a-z]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVICE_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def subdomain(name: str) -> Iterator[str]:
    """The names of most objects: lower-case labels separated by dots, at most 253 characters."""
    return _formed(name, _SUBDOMAIN, _SUBDOMAIN_RULE, 253)


def dns_label(name: str) -> Iterator[str]:
    """The names of Namespaces and containers: one label of at most 63 characters."""
    return _formed(name, _LABEL, _LABEL_RULE, 63)


def service_name(name: str) -> Iterator[str]:
    """The names of Services: a label that begins with a letter."""
    return _formed(name, _SERVICE, _SERVICE_RULE, 63)


def label_value(value: str) -> Iterator[str]:
    return _formed(value, _LABEL_VALUE, _LABEL_VALUE_RULE, 63)


def is_label(key: str, value: str) -> bool:
    """Whether key and value are both valid. Cached, because objects repeat the same few labels."""
    return len(key) + len(value) <= _LONGEST_LABEL and _is_label(key, value)


_LONGEST_LABEL = 253 + 1 + 63 + 63


@functools.lru_cache(maxsize=4096)
def _is_label(key: str, value: str) -> bool:
    return not any(qualified_name(key)) and not any(label_value(value))


def config_key(key: str) -> Iterator[str]:
    """The keys of ConfigMaps and Secrets, which may become file names."""
    yield from _formed(key, _CONFIG_KEY, _CONFIG_KEY_RULE, 253)
    if key == ".":
        yield "must not be '.'"
    elif key == "..":
        yield "must not be '..'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def qualified_name(key: str) -> Iterator[str]:
    """The keys of labels and annotations, and finalizers: `[prefix/]name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {complaint}" for complaint in subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > 63:
        yield "name part must be no more than 63 characters"
    if not _QUALIFIED.fullmatch(name):
        yield _QUALIFIED_RULE


def port_name(name: str) -> Iterator[str]:
    """Names of ports, in the form of IANA service names."""
    if len(name) > 15:
        yield "must be no more than 15 characters"
    if not _PORT.fullmatch(name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not _LETTER.search(name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _formed(text: str, pattern: re.Pattern[str], rule: str, longest: int) -> Iterator[str]:
    if len(text) > longest:
        yield f"must be no more than {longest} characters"
    if not pattern.fullmatch(text):
        yield rule
