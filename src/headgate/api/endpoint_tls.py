"""How endpoints that speak https are verified, as annotations of their ModelServer or InferencePool say."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.api import marks

CA_KEY = "ca.crt"
"""The key of a Secret that has certificates of authorities, unless another is named."""

ANNOTATIONS = (marks.TLS_AUTHORITIES, marks.TLS_SERVER_NAME, marks.TLS_INSECURE)

_SECRET_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


class InvalidAnnotationError(ValueError):
    """An annotation that says nothing clear; `annotation` is its key."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation


def protocol(annotations: Mapping[str, str]) -> str:
    """What endpoints of an InferencePool speak, http or https. Raises InvalidAnnotationError."""
    given = annotations.get(marks.PROTOCOL, "http")
    if given not in ("http", "https"):
        raise InvalidAnnotationError(marks.PROTOCOL, f"{given[:64]!r} is neither http nor https")
    return given


@dataclass(frozen=True)
class EndpointTls:
    """What is asked of the certificates of endpoints."""

    secret: str = ""
    """Name of the Secret that has the authorities; empty for those of the system."""
    key: str = CA_KEY
    server_name: str = ""
    """The name that they must have; empty for the address of the endpoint."""
    insecure: bool = False

    @classmethod
    def parse(cls, annotations: Mapping[str, str]) -> "EndpointTls":
        """Raises InvalidAnnotationError, which says what to write."""
        secret, key = "", CA_KEY
        named = annotations.get(marks.TLS_AUTHORITIES)
        if named is not None:
            secret, _, key = named.partition("/")
            key = key or CA_KEY
            if not _SECRET_NAME.fullmatch(secret) or not _SECRET_KEY.fullmatch(key):
                told = f"{named!r} is not the name of a Secret; write `secret` or `secret/key`"
                raise InvalidAnnotationError(marks.TLS_AUTHORITIES, told)
        name = annotations.get(marks.TLS_SERVER_NAME, "")
        if name and not _is_host(name):
            raise InvalidAnnotationError(marks.TLS_SERVER_NAME, f"{name!r} is no DNS name and no address")
        insecure = annotations.get(marks.TLS_INSECURE, "false")
        if insecure not in ("true", "false"):
            raise InvalidAnnotationError(marks.TLS_INSECURE, f'{insecure!r} is neither "true" nor "false"')
        if insecure == "true" and secret:
            told = f'"true" contradicts {marks.TLS_AUTHORITIES}: remove one of them'
            raise InvalidAnnotationError(marks.TLS_INSECURE, told)
        return cls(secret, key, name, insecure == "true")


def _is_host(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return _HOST_NAME.fullmatch(name) is not None
    return True
