"""A download is a process: it ends when nobody wants it any more, and its last words are the error."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from headgate.runtime.fetching import MAX_AT_ONCE, Fetcher, FetchError


def fetcher(tmp_path, script):
    """A Fetcher whose program is this script; its arguments follow."""
    return Fetcher(tmp_path / "status", (sys.executable, "-c", script))


async def appears(path):
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.02)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_arguments_are_not_taken_for_options(tmp_path):
    """Whatever the source and the name are."""
    script = f"import sys; open({str(tmp_path / 'out')!r}, 'w').write('|'.join(sys.argv[1:]))"
    await fetcher(tmp_path, script).fetch("--help", tmp_path / "a", "../x y")
    assert (tmp_path / "out").read_text().split("|") == [
        "--source=--help",
        f"--output-dir={tmp_path / 'a'}",
        f"--status-dir={tmp_path / 'status'}",
        "--name=a",
    ]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("raise SystemExit('Error: gated\\nask for access')", "gated ask for access"),
        ("import sys; sys.stderr.write('a\\n' * 10000 + 'Error: b'); sys.exit(3)", "b"),
        ("import sys; sys.stderr.buffer.write(b'\\xff' * 1000000); sys.exit(3)", ""),
        ("import sys; sys.stderr.write('Error: ' + 'x' * 30000); sys.exit(3)", "x" * 1000),
        ("import sys; sys.exit(3)", "`headgate download` ended with code 3"),
    ],
)
async def test_the_last_words_are_the_error(tmp_path, script, told):
    """In one line, and not longer than it needs to be."""
    with pytest.raises(FetchError) as caught:
        await fetcher(tmp_path, script).fetch("hf://a/b", tmp_path / "a", "a")
    assert told in str(caught.value)
    assert len(str(caught.value)) <= 1000


async def test_a_download_that_is_not_wanted_any_more_is_ended(tmp_path):
    """Its process is gone when the call ends."""
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    task = asyncio.create_task(fetcher(tmp_path, script).fetch("hf://a/b", tmp_path / "a", "a"))
    await appears(tmp_path / "pid")
    async with asyncio.timeout(60):
        while not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.02)
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_few_run_at_a_time(tmp_path):
    """The others wait for their turn."""
    script = (
        "import os, sys, time\n"
        f"here = {str(tmp_path)!r} + '/running-' + str(os.getpid())\n"
        "open(here, 'w').close()\n"
        f"count = len([n for n in os.listdir({str(tmp_path)!r}) if n.startswith('running-')])\n"
        "time.sleep(0.2)\n"
        "os.unlink(here)\n"
        f"sys.exit(count > {MAX_AT_ONCE})\n"
    )
    one = fetcher(tmp_path, script)
    await asyncio.gather(*(one.fetch("hf://a/b", tmp_path / f"a{i}", f"a{i}") for i in range(6)))
    assert not [name for name in os.listdir(tmp_path) if name.startswith("running-")]
