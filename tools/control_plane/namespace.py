"""A network namespace with addresses for Pods, entered without root where the system allows it.

Kubernetes rejects loopback addresses in EndpointSlices, so tests need Pods at addresses of another range.
In a namespace of its own, the loopback device has all addresses of that range, and nothing outside can be
reached.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import os
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

from programs import ControlPlaneError

PODS = ipaddress.IPv4Interface("10.244.0.1/16")
VARIABLE = "HEADGATE_TEST_POD_RANGE"
"""Tells the command in the namespace which addresses it may use."""

CLONE_NEWUSER = 0x10000000  # linux/sched.h
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913  # linux/sockios.h
SIOCSIFFLAGS = 0x8914
SIOCSIFADDR = 0x8916
SIOCSIFNETMASK = 0x891C
IFF_UP = 1


def run(command: list[str]) -> NoReturn:
    """Replaces this process by a command in a namespace of its own."""
    _enter()
    os.environ[VARIABLE] = str(PODS.network)
    try:
        os.execvp(command[0], command)  # noqa: S606 - as told
    except OSError as error:
        raise ControlPlaneError(f"{command[0]} cannot be started: {error.strerror}") from error


def why_impossible() -> str | None:
    """Why this process could not enter a namespace; None if it can, which a child process tries."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            _enter()
        except ControlPlaneError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        reason = told.read()
    os.waitpid(child, 0)
    return reason or None


def _enter() -> None:
    if sys.platform != "linux":
        raise ControlPlaneError("only Linux has network namespaces")
    user, group = os.geteuid(), os.getegid()
    try:
        if not _unshare(CLONE_NEWNET):
            _unshare_as_user(user, group)
        _set_up_loopback()
    except OSError as error:
        raise ControlPlaneError(
            f"this system does not let you create a network namespace ({error.strerror}): become root, "
            "or allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
        ) from error


def _unshare(flags: int) -> bool:
    """False if this user may not; os.unshare needs Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.EPERM:
        return False
    raise OSError(number, os.strerror(number))


def _unshare_as_user(user: int, group: int) -> None:
    """In a user namespace, this process has all rights over its network until it executes a command."""
    if not _unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _set_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        [flags] = struct.unpack(
            "16xH", fcntl.ioctl(sock, SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))[:18]
        )
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
        fcntl.ioctl(sock, SIOCSIFADDR, _request(b"lo:pods", PODS.ip))
        fcntl.ioctl(sock, SIOCSIFNETMASK, _request(b"lo:pods", PODS.netmask))


def _request(label: bytes, address: ipaddress.IPv4Address) -> bytes:
    """A struct ifreq with the sockaddr_in of an address."""
    return struct.pack("16sHH4s8x", label, socket.AF_INET, 0, address.packed)
