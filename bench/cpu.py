"""What a process has cost: CPU time of a process and everything below it, from /proc.

CPU time is the measure because it is what a proxy takes away from the machine, and because it holds still
where wall time, requests per second and latencies follow whatever else the machine does.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def parse_stat(stat: str) -> tuple[int, int]:
    """Parent pid and CPU ticks of a line of /proc/PID/stat.

    The ticks are utime and stime (all threads of the process, ended ones too), cutime and cstime (children
    that ended and were waited for). A command name may hold spaces and brackets: fields count from its end.
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
            continue  # ended between the listing and the reading
    tree = {pid} & ticks.keys()
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return {number: ticks[number] for number in tree}


def age_s(pid: int) -> float:
    """How long ago a process started."""
    started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started * TICK_S


def cpu_seconds(pid: int) -> float:
    """CPU time that `pid` and its descendants have taken so far."""
    return sum(process_tree(pid).values()) * TICK_S


def peak_memory_mb(pid: int) -> float:
    """The largest resident size so far, summed over `pid` and its descendants."""
    return _status_kb(pid, "VmHWM:") / 1024


def forget_peak(pid: int) -> None:
    """Makes the resident size of now the largest so far, of `pid` and its descendants."""
    for number in process_tree(pid):
        Path(f"/proc/{number}/clear_refs").write_text("5")


def memory_kb(pid: int) -> float:
    """The resident size now, summed over `pid` and its descendants."""
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
    """CPU ticks of all cores since the machine started: those in which they idled, and all."""
    line = Path("/proc/stat").read_text().splitlines()[0]
    # user, nice, system, idle, iowait, irq, softirq, steal; what guests take is in the first two.
    ticks = [int(text) for text in line.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def machine() -> dict[str, str | int]:
    """The kind of machine, without anything that names this one."""
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
