"""The service `grpc.health.v1.Health`: Check and List. Watch is UNIMPLEMENTED, as in the reference picker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headgate.rpc import status
from headgate.rpc.calls import ServerCall, Services
from headgate.rpc.errors import CallError
from headgate.rpc.unary import unary

SERVING: Final = 1
NOT_SERVING: Final = 2
SERVICE_UNKNOWN: Final = 3

Check = Callable[[], bool]
"""Whether a service is ready."""

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5


def services(checks: Mapping[str, Check], otherwise: Check | None = None) -> Services:
    """The methods of the health service, for `Services`.

    `checks`: by name of the service; "" is the server as a whole. `otherwise`: for all other names; without
    it, they are SERVICE_UNKNOWN.
    """

    def check(call: ServerCall, request: bytes) -> bytes:
        found = checks.get(_service(request), otherwise)
        return _response(SERVICE_UNKNOWN if found is None else _state(found))

    def list_all(call: ServerCall, request: bytes) -> bytes:
        return b"".join(_entry(name, _response(_state(each))) for name, each in checks.items())

    return {
        "/grpc.health.v1.Health/Check": unary(check),
        "/grpc.health.v1.Health/List": unary(list_all),
    }


def _state(check: Check) -> int:
    return SERVING if check() else NOT_SERVING


def _response(state: int) -> bytes:
    """HealthCheckResponse: its field 1 is an enum."""
    return bytes((1 << 3 | _VARINT, state))


def _entry(name: str, response: bytes) -> bytes:
    """An entry of the map in HealthListResponse, which is its field 1."""
    return _field(1, _field(1, name.encode()) + _field(2, response))


def _field(number: int, value: bytes) -> bytes:
    size, length = len(value), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((number << 3 | _LEN, *length, size)) + value


def _service(request: bytes) -> str:
    """Field 1 of HealthCheckRequest; others are skipped. Raises CallError."""
    found, at = b"", 0
    try:
        while at < len(request):
            tag, at = _varint(request, at)
            kind = tag & 7
            if kind == _LEN:
                size, at = _varint(request, at)
                if at + size > len(request):
                    raise IndexError
                if tag >> 3 == 1:
                    found = request[at : at + size]
                at += size
            elif kind == _VARINT:
                _, at = _varint(request, at)
            elif kind in (_I64, _I32):
                at += 8 if kind == _I64 else 4
            else:
                raise IndexError
        return found.decode()
    except (IndexError, UnicodeDecodeError):
        raise CallError(status.INTERNAL, "the request is not a HealthCheckRequest") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IndexError
