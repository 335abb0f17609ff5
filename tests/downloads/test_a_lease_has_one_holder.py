"""The lease excludes other processes of this machine by flock, and those of other machines by its renewal."""

import dataclasses
import fcntl
import json
import os
import threading
import time

import msgspec
import pytest

from headgate import downloads
from headgate.downloads import lease
from headgate.downloads.halting import Halt

QUICK = lease.Timing(renew_s=0.1, expiry_s=1.0, confirm_s=0.3, poll_s=0.02)


def write(path, holder):
    path.write_bytes(msgspec.json.encode(holder))


@pytest.fixture
def elsewhere(tmp_path):
    """The lease of a process of another machine."""
    holder = lease.Holder("token", "other-host", 7, "other kernel", beat=3, doing="1 GB of 2 GB")
    write(tmp_path / "lease.json", holder)
    return holder


def test_a_lease_is_removed_in_the_end(tmp_path):
    """It names its holder meanwhile."""
    with lease.held(tmp_path / "sub", Halt(), lambda _: None, lambda: "busy", QUICK):
        until = time.monotonic() + 60
        while (found := lease.read(tmp_path / "sub" / "lease.json")) is None or not found.beat:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert (found.pid, found.doing) == (os.getpid(), "busy")
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["lock"]


def test_threads_hold_it_in_turn(tmp_path):
    """Never two at a time."""
    inside, most = [], []

    def work():
        with lease.held(tmp_path, Halt(), lambda _: None, timing=QUICK):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


def test_a_dead_holder_of_this_machine_is_succeeded_at_once(tmp_path):
    """The kernel has released its flock, so its lease needs no time to expire."""
    with lease.held(tmp_path, Halt(), lambda _: None, timing=QUICK):
        content = (tmp_path / "lease.json").read_bytes()
    (tmp_path / "lease.json").write_bytes(content)
    slow = lease.Timing(expiry_s=10_000.0, confirm_s=10_000.0)

    with lease.held(tmp_path, Halt(), lambda _: None, timing=slow):
        assert lease.read(tmp_path / "lease.json").token != json.loads(content)["token"]


def test_a_holder_elsewhere_is_waited_for_while_it_renews(tmp_path, elsewhere):
    """Its clock does not matter: only that its lease changes."""
    told = []

    def waiting(holder):
        """It is renewed before each look, for longer than a silent one is waited for."""
        told.append(str(holder))
        if len(told) * QUICK.poll_s < 2 * (QUICK.expiry_s + QUICK.confirm_s):
            write(tmp_path / "lease.json", msgspec.structs.replace(elsewhere, beat=len(told)))
        else:
            (tmp_path / "lease.json").unlink()

    with lease.held(tmp_path, Halt(), waiting, timing=QUICK):
        assert len(told) * QUICK.poll_s >= 2 * (QUICK.expiry_s + QUICK.confirm_s)
    assert told[0] == "other-host (process 7), 1 GB of 2 GB"


def test_a_silent_holder_elsewhere_is_succeeded(tmp_path, elsewhere):
    """After the expiry, not before."""
    since = time.monotonic()
    with lease.held(tmp_path, Halt(), lambda _: None, timing=QUICK):
        assert time.monotonic() - since >= QUICK.expiry_s + QUICK.confirm_s
        assert lease.read(tmp_path / "lease.json").pid == os.getpid()


def test_machines_without_a_common_flock_take_over_one_at_a_time(tmp_path, elsewhere, monkeypatch):
    """Neither the flock nor the kernel is shared, and both find the expired lease of a third."""
    kernels = threading.local()
    patient = dataclasses.replace(QUICK, expiry_s=5.0)  # a busy machine may renew late
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(lease, "_kernel", lambda _: kernels.name)
    inside, most = [], []

    def work(name):
        kernels.name = name
        with lease.held(tmp_path, Halt(), lambda _: None, timing=patient) as held:
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.3)
            held.check()
            inside.pop()

    threads = [threading.Thread(target=work, args=(f"kernel {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def test_a_filesystem_without_flock_relies_on_the_lease(tmp_path, elsewhere, monkeypatch):
    """ENOLCK, as from some network filesystems."""

    def fail(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    told = []
    with lease.held(tmp_path, Halt(), told.append, timing=QUICK):
        assert told


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"token": 1}', b"x" * 200_000])
def test_a_lease_that_cannot_be_read_belongs_to_nobody(tmp_path, content):
    """For example one that was cut off when its disk was full."""
    (tmp_path / "lease.json").write_bytes(content)
    with lease.held(tmp_path, Halt(), lambda _: None, timing=QUICK):
        assert lease.read(tmp_path / "lease.json").pid == os.getpid()


def test_a_holder_that_could_not_renew_in_time_may_not_write(tmp_path, monkeypatch):
    """It cannot know whether somebody else took over."""
    halt = Halt()
    with lease.held(tmp_path, halt, lambda _: None, timing=QUICK) as held:
        held.check()
        now = lease._now()
        monkeypatch.setattr(lease, "_now", lambda: now + 5)
        with pytest.raises(downloads.DownloadError, match="was not renewed in time"):
            held.check()


def test_waiting_ends_with_the_halt(tmp_path, elsewhere):
    """A signal does not wait for the holder."""
    halt = Halt()
    with (
        pytest.raises(downloads.DownloadError, match="interrupted"),
        lease.held(tmp_path, halt, lambda _: halt.set(), timing=lease.Timing()),
    ):
        raise AssertionError
