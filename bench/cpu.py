"""CPU time of a process and its descendants, from /proc.

CPU time is used because it is what a proxy takes from the machine, and because it is stable, while wall time,
requests per second and latencies depend on whatever else the machine does.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def parse_stat(stat: str) -> tuple[int, int]:
    """Parent pid and CPU ticks from a line of /proc/PID/stat.

    The ticks are utime and stime (all threads of the process, including ended ones), cutime and cstime
    (children that ended and were waited for). A command name may contain spaces and brackets, so fields are
    counted from its end.
    """
    fields = stat.rpartition(")")[2].split()
    return int(fields[1]), sum(int(ticks) for ticks in fields[11:15])


def process_tree(pid: int) -> dict[int, int]:
    """CPU ticks by pid, of `pid` and its descendants. Empty if it is gone."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            number = int(entry.name)
            parents[number], ticks[number] = parse_stat((entry / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended between listing and reading
    tree = {pid} & ticks.keys()
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return {number: ticks[number] for number in tree}


def age_s(pid: int) -> float:
    """How long ago a process started."""
    started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started * TICK_S


def cpu_seconds(pid: int) -> float:
    """CPU time of `pid` and its descendants so far."""
    return sum(process_tree(pid).values()) * TICK_S


def peak_memory_mb(pid: int) -> float:
    """The peak resident size so far, summed over `pid` and its descendants."""
    return _status_kb(pid, "VmHWM:") / 1024


def forget_peak(pid: int) -> None:
    """Reset the peak resident size of `pid` and its descendants."""
    for number in process_tree(pid):
        Path(f"/proc/{number}/clear_refs").write_text("5")


def memory_kb(pid: int) -> float:
    """The current resident size, summed over `pid` and its descendants."""
    return _status_kb(pid, "VmRSS:")


def _status_kb(pid: int, field: str) -> int:
    lines = [
        line
        for number in process_tree(pid)
        for line in Path(f"/proc/{number}/status").read_text().splitlines()
        if line.startswith(field)
    ]
    return sum(int(line.split()[1]) for line in lines)


def machine_ticks() -> tuple[int, int]:
    """Idle and total CPU ticks of all cores since boot."""
    line = Path("/proc/stat").read_text().splitlines()[0]
    # user, nice, system, idle, iowait, irq, softirq, steal; guest time is included in the first two.
    ticks = [int(text) for text in line.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def machine() -> dict[str, str | int]:
    """The type of machine, without identifying information."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": model,
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_kb / 1024**2),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
