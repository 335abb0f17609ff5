"""The accounting of CPU time from /proc."""

import subprocess
import sys

import cpu

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_fields_are_counted_from_the_end_of_the_command_name() -> None:
    """A command name with spaces and brackets does not shift the fields."""
    line = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 3 0 100 0 0"
    assert cpu.parse_stat(line) == (7, 11 + 22 + 33 + 44)


def test_work_of_running_and_of_ended_children_is_counted() -> None:
    """What a child burns is charged to its parent's tree while the child lives and after it ended."""
    script = (
        f"import subprocess, sys\nburn = [sys.executable, '-c', {BURN!r}]\n"
        f"subprocess.run(burn)\nliving = subprocess.Popen([*burn[:2], burn[2] + '\\ninput()'], stdin=-1)\n"
        "living.stdin.flush()\nprint('ended', flush=True)\ninput()\nliving.communicate(b'\\n')"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        after_one = cpu.cpu_seconds(parent.pid)
        assert len(cpu.process_tree(parent.pid)) == 2
        parent.communicate(b"\n")
    assert after_one >= 0.3


def test_a_process_that_is_gone_costs_nothing() -> None:
    """Reading a pid that has ended gives zero instead of an error."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert cpu.process_tree(ended.pid) == {}
