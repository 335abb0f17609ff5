"""Runs the program of a container, and ends everything that it started, even if the node dies.

Run as a separate script, `python -I -S launcher.py [OPTIONS] -- PROGRAM ARGUMENTS...`, so that the node,
which has threads, never runs Python code between fork and exec. It imports nothing of Headgate. Its standard
input is a socket to the node. The node writes signal numbers for the program's process group, one byte each,
and closes the socket, on purpose or by its own death, to end everything. The launcher writes the program's
process ID, or a zero and the reason why there is none, and at the end its waitpid status, as numbers of four
bytes.

On Linux, the launcher is the "subreaper" of the program: daemons that leave the program's group and session
become children of the launcher, which kills them when the program has ended.

With `--namespace` or `--user-namespace`, launcher and program have their own view of the file system, in
which each `--mount SOURCE TARGET ro|rw` is done. Mounts end with the processes. `--directory PATH` is where
the program starts in that view. `--try` only does the mounts.

The program has nothing to read, or with `--stdin FILE`, that descriptor as its standard input. If it is a
terminal, it becomes the controlling one of the program's session.
"""

import contextlib
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CANNOT_EXECUTE = 126
_WAIT_S = 10.0
"""Maximum wait for a process that cannot be killed, for example because it runs as another user."""
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
"""Only the node stops the launcher: signals sent to its session are meant for the program."""


_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_DETACH = 2
_KEPT_FLAGS = 2 | 4 | 8
"""nosuid, nodev and noexec, which only the machine's root may remove from a mount."""
_OLD_ROOT = "/.headgate-root"


def main(arguments: list[str]) -> None:
    options = _Options(arguments)
    if options.only_try:
        _mount_all(options)
        return
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in _IGNORED:
        signal.signal(number, lambda *_: None)
    _become_subreaper()
    try:
        _mount_all(options)
        if options.directory:
            os.chdir(options.directory)
    except OSError as error:
        reason = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        control.send((0).to_bytes(4) + reason.encode(errors="replace")[:1024])
        return
    program = _start(options.command, options.stdin)
    with contextlib.suppress(OSError):
        control.send(program.to_bytes(4))
    status = _until_ended(program, control, woken)
    if sys.platform == "linux":
        _end_descendants()
    with contextlib.suppress(OSError):
        control.send(status.to_bytes(4))


class _Options:
    """The parsed command line, which the node composes."""

    def __init__(self, words: list[str]) -> None:
        self.namespaces = 0
        self.mounts: list[tuple[str, str, bool]] = []
        """Source, target, and whether it is read-only."""
        self.directory = ""
        self.stdin: int | None = None
        self.only_try = False
        rest = iter(words)
        for word in rest:
            if word == "--namespace":
                self.namespaces = _NEW_MOUNTS
            elif word == "--user-namespace":
                self.namespaces = _NEW_MOUNTS | _NEW_USER
            elif word == "--mount":
                self.mounts.append((next(rest), next(rest), next(rest) == "ro"))
            elif word == "--directory":
                self.directory = next(rest)
            elif word == "--stdin":
                self.stdin = int(next(rest))
            elif word == "--try":
                self.only_try = True
            else:
                break
        self.command = list(rest)


def _start(command: list[str], stdin: int | None) -> int:
    launcher = os.getpid()
    executed, execution = os.pipe()
    program = os.fork()
    if program:
        # exec closes the pipe. Before that, a signal for the program's group would be lost.
        os.close(execution)
        if stdin is not None:
            os.close(stdin)
        os.read(executed, 1)
        os.close(executed)
        return program
    # From here on this is the child, which must not return.
    try:
        os.setsid()
        if stdin is not None:
            os.dup2(stdin, 0)
            os.close(stdin)
            if os.isatty(0):
                _control_terminal()
        signal.set_wakeup_fd(-1)
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        _die_with(launcher)
        os.execvp(command[0], command)  # noqa: S606 - running the Pod's command is the purpose
    except OSError as error:
        os.write(2, f"cannot execute {command[0]!r}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_EXECUTE)


def _control_terminal() -> None:
    """Make standard input the controlling terminal of this session."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _until_ended(program: int, control: socket.socket, woken: int) -> int:
    """Forward signals until the program has ended; returns its status."""
    open_files = [woken, control.fileno()]
    while True:
        ready, _, _ = select.select(open_files, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if control.fileno() in ready:
            orders = _received(control)
            if not orders:  # the node wants everything to end, or has died
                open_files.remove(control.fileno())
                orders = bytes([signal.SIGKILL])
            for number in orders:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(program, number)
        status = _reap(program)
        if status is not None:
            return status


def _received(control: socket.socket) -> bytes:
    try:
        return control.recv(64)
    except OSError:
        return b""


def _reap(program: int) -> int | None:
    """Reap ended processes; returns the status of the program if it is among them."""
    while True:
        try:
            # Check without reaping: while the program is a zombie, its process ID is not reused.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if ended is None:
            return None
        if ended.si_pid == program:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(program, signal.SIGKILL)
            return os.waitpid(program, 0)[1]
        os.waitpid(ended.si_pid, 0)


def _end_descendants() -> None:
    """Kill all descendants of this process. Children forked meanwhile are found in the next round."""
    until = time.monotonic() + _WAIT_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            for pid in _descendants():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, pending = [], [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Every process of the machine with its parent, if there is a /proc."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


# Mounts. All of these raise OSError.


def _mount_all(options: _Options) -> None:
    if not options.namespaces:
        return
    before = os.getcwd()
    _separate(options.namespaces)
    mounts = sorted(options.mounts, key=lambda each: len(each[1]))
    view = _View()
    if any(_nearest(target) == "/" for _, target, _ in mounts):
        view.replace_root()
    # All are opened before one can hide another.
    sources = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source, _, _ in mounts]
    places = [view.bind(file, target) for file, (_, target, _) in zip(sources, mounts, strict=True)]
    for place, (_, _, read_only) in zip(places, mounts, strict=True):
        if read_only:  # last, since another mount may have needed a directory in it
            kept = os.statvfs(place).f_flag & _KEPT_FLAGS
            _mount("none", place, _REMOUNT | _BIND | _READ_ONLY | kept)
    for file in sources:
        os.close(file)
    with contextlib.suppress(OSError):  # it may be hidden now
        os.chdir(before)


class _View:
    """The file system as the program will see it.

    A mount needs a place. Where there is none, nothing is created on the machine: a file system in memory
    takes the place of the nearest directory above, and gets what that one has by further mounts.
    """

    def __init__(self) -> None:
        self._volumes: list[str] = []
        self._made: set[int] = set()
        """Device numbers of our file systems in memory."""

    def bind(self, source: int, target: str) -> str:
        """Mount an open directory or file; returns the target without links."""
        place = os.path.realpath(target)
        if not os.path.lexists(place):
            above = _nearest(place)
            if not self._may_create_in(above):
                self._cover(above)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            _create(place, is_directory=stat.S_ISDIR(os.fstat(source).st_mode))
        _mount(f"/proc/self/fd/{source}", place, _BIND | _RECURSIVE)
        self._volumes.append(place)
        return place

    def replace_root(self) -> None:
        """Cover the root directory, which cannot be mounted on."""
        start = next(each.path for each in os.scandir("/") if each.is_dir(follow_symlinks=False))
        _mount("tmpfs", start, 0, "tmpfs", "mode=755")
        os.mkdir(start + _OLD_ROOT)
        _call("pivot_root", start.encode(), (start + _OLD_ROOT).encode())
        os.chdir("/")
        self._made.add(os.stat("/").st_dev)
        _copy_by_mounts(_OLD_ROOT, "")
        _call("umount2", _OLD_ROOT.encode(), _DETACH)
        os.rmdir(_OLD_ROOT)

    def _may_create_in(self, directory: str) -> bool:
        inside = any(f"{directory}/".startswith(f"{each}/") for each in self._volumes)
        return inside or os.stat(directory).st_dev in self._made

    def _cover(self, directory: str) -> None:
        before = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        known = os.fstat(before)
        _mount("tmpfs", directory, 0, "tmpfs", f"mode={stat.S_IMODE(known.st_mode):o}")
        with contextlib.suppress(OSError):
            os.chown(directory, known.st_uid, known.st_gid)
        self._made.add(os.stat(directory).st_dev)
        _copy_by_mounts(f"/proc/self/fd/{before}", directory)
        os.close(before)


def _copy_by_mounts(source: str, target: str) -> None:
    """Make everything in a directory visible in another. What has vanished or is off limits is left out."""
    for entry in os.scandir(source):
        place = f"{target}/{entry.name}"
        with contextlib.suppress(OSError):
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
            else:
                _create(place, is_directory=entry.is_dir())
                _mount(entry.path, place, _BIND | _RECURSIVE)


def _nearest(path: str) -> str:
    """The nearest directory above a path that exists; the path itself if it does."""
    path = os.path.realpath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _create(path: str, *, is_directory: bool) -> None:
    if is_directory:
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _separate(namespaces: int) -> None:
    """Enter new namespaces, as the same user and group."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", namespaces)
    if namespaces & _NEW_USER:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount("none", "/", _RECURSIVE | _PRIVATE)


def _mount(source: str, target: str, flags: int, kind: str = "", data: str = "") -> None:
    try:
        _call("mount", source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None)
    except OSError as error:
        raise OSError(error.errno, f"cannot mount: {error.strerror}", target) from None


def _call(function: str, *arguments: bytes | int | None) -> None:
    """Call a function of the C library that returns 0 for success."""
    import ctypes

    converted = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*converted) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _become_subreaper() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with(parent: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The launcher may have died before the call; then the signal would never arrive.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
