"""One download at a time of one directory, among processes of one or of several machines.

Two means together, because neither suffices:

- `flock` on a lock file. The kernel releases it when the holder dies, however it dies, so a successor on the
  same machine starts at once. NFS, CephFS and Lustre extend it to all their clients; other filesystems keep
  it local to each machine, or refuse it.
- A lease file that the holder rewrites every few seconds, for the filesystems where flock does not reach. A
  process that has the flock, but finds the lease of one that flock may not have excluded, takes over only
  after that lease has not changed for `expiry_s` by its own clock; clocks of machines are never compared.

A holder that was suspended notices before its next write that its lease may have expired, and gives up. If
two processes nevertheless write at the same time for a moment, they write the same bytes to the same places.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headgate.downloads import files, manifest
from headgate.downloads.errors import DownloadError, Reason
from headgate.downloads.halting import Halt

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_MAX_BYTES = 64 << 10


@dataclass(frozen=True)
class Timing:
    renew_s: float = 5.0
    expiry_s: float = 20.0
    confirm_s: float = 2.0
    """After taking over from another machine: long enough for a rival to show up."""
    poll_s: float = 0.5


class Holder(msgspec.Struct, frozen=True):
    """The content of a lease file."""

    token: str
    host: str
    pid: int
    kernel: str
    """The running kernel and the filesystem in it; processes that share both exclude each other by flock."""
    beat: int = 0
    doing: str = ""

    def __str__(self) -> str:
        return f"{self.host} (process {self.pid})" + (f", {self.doing}" if self.doing else "")


def _now() -> float:
    """Seconds, including the time in which the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Held until `release`, and renewed by a thread, which halts the download when the lease is lost."""

    def __init__(
        self, path: Path, lock: int, holder: Holder, halt: Halt, doing: Callable[[], str], timing: Timing
    ) -> None:
        self._path, self._lock, self._holder = path, lock, holder
        self._halt, self._doing, self._timing = halt, doing, timing
        self._renewed = _now()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise if the lease may have been taken over; called before each write."""
        if _now() - self._renewed > self._timing.expiry_s:
            raise self._lost(
                "was not renewed in time, because this process was suspended or the disk did not respond"
            )

    def _lost(self, why: str) -> DownloadError:
        return DownloadError(Reason.LOST_LOCK, f"the lease {self._path} {why}; start the download again")

    def _keep(self) -> None:
        while not self._end.wait(self._timing.renew_s):
            try:
                self._renew()
            except OSError:
                continue  # until it expires
            except DownloadError as error:
                self._halt.set(error)
                return

    def _renew(self) -> None:
        self.check()
        began = _now()
        found = read(self._path)
        if found is None or found.token != self._holder.token:
            raise self._lost(f"was taken over by {found or 'nobody: it was removed'}")
        self._holder = msgspec.structs.replace(self._holder, beat=self._holder.beat + 1, doing=self._doing())
        manifest.write_json(self._path, self._holder)
        self._renewed = began

    def release(self) -> None:
        self._end.set()
        self._thread.join(self._timing.expiry_s)
        found = read(self._path)
        if found is not None and found.token == self._holder.token:
            self._path.unlink(missing_ok=True)
        os.close(self._lock)


def read(path: Path) -> Holder | None:
    """The holder in the lease file; None without one. Content that nobody can read belongs to nobody."""
    try:
        with open(path, "rb", opener=files.regular) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Holder)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


@contextmanager
def held(
    directory: Path,
    halt: Halt,
    waiting: Callable[[Holder | None], None],
    doing: Callable[[], str] = lambda: "",
    timing: Timing = Timing(),
) -> Iterator[Lease]:
    """Hold the lease of this directory, which is made if it does not exist.

    `waiting` is called again and again until then, with the holder, if it is known; `doing` says what this
    process does, for those who wait.
    """
    lease = _acquire(directory, halt, waiting, doing, timing)
    try:
        yield lease
    finally:
        lease.release()


def _acquire(
    directory: Path,
    halt: Halt,
    waiting: Callable[[Holder | None], None],
    doing: Callable[[], str],
    timing: Timing,
) -> Lease:
    path = directory / "lease.json"
    while True:
        lock = _flock(directory, halt, waiting, path, timing)
        try:
            holder = _take(path, lock, halt, waiting, timing)
            return Lease(path, lock, holder, halt, doing, timing)
        except FileNotFoundError:
            os.close(lock)  # the directory was removed meanwhile
        except BaseException:
            os.close(lock)
            raise


def _flock(
    directory: Path, halt: Halt, waiting: Callable[[Holder | None], None], path: Path, timing: Timing
) -> int:
    """The descriptor of the lock file, locked where the filesystem can do that."""
    file = directory / "lock"
    while True:
        halt.check()
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        with contextlib.suppress(FileNotFoundError):
            if _locks(descriptor) and os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)
        waiting(read(path))
        halt.wait(timing.poll_s)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno not in _UNSUPPORTED:
            raise
    return True


def _take(
    path: Path, lock: int, halt: Halt, waiting: Callable[[Holder | None], None], timing: Timing
) -> Holder:
    """Write the lease for this process, once nobody else holds it."""
    own = Holder(secrets.token_hex(16), socket.gethostname(), os.getpid(), _kernel(lock))
    if _create(path, own):
        return own
    found, since = read(path), _now()
    while found is not None and found.kernel != own.kernel and _now() - since < timing.expiry_s:
        waiting(found)
        halt.wait(timing.poll_s)
        latest = read(path)
        if latest != found:
            found, since = latest, _now()
    manifest.write_json(path, own)
    if found is None or found.kernel != own.kernel:
        halt.wait(timing.confirm_s)
        latest = read(path)
        if latest is None or latest.token != own.token:
            return _take(path, lock, halt, waiting, timing)
    return own


def _create(path: Path, own: Holder) -> bool:
    """Whether there was no lease; atomic on NFS too."""
    new = path.with_name(f".{own.token}.new")
    try:
        new.write_bytes(msgspec.json.encode(own))
        os.link(new, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        return _create_exclusively(path, own)
    finally:
        new.unlink(missing_ok=True)
    return True


def _create_exclusively(path: Path, own: Holder) -> bool:
    """For filesystems without hard links."""
    try:
        with path.open("xb") as file:
            file.write(msgspec.json.encode(own))
    except FileExistsError:
        return False
    return True


def _kernel(lock: int) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = secrets.token_hex(16)  # equal to nobody: wait for the expiry
    return f"{boot}/{os.fstat(lock).st_dev}"
