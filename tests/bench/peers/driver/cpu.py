"""CPU time of this machine and of trees of processes, from /proc."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Process:
    parent: int
    # Its own time and that of children that have ended and been waited for, in seconds.
    seconds: float


def parse_stat(text: str) -> Process:
    """One /proc/PID/stat. The name in parentheses may hold anything, so we look from its end."""
    fields = text[text.rindex(")") + 2 :].split()
    ticks = sum(int(fields[index]) for index in (11, 12, 13, 14))
    return Process(int(fields[1]), ticks / TICKS_PER_S)


def parse_busy(text: str) -> float:
    """Seconds that all cores worked, by the first line of /proc/stat. What a hypervisor took for
    other machines counts too: it was not ours."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, text.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def processes() -> dict[int, Process]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found[int(entry)] = parse_stat(Path("/proc", entry, "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def tree_seconds(root: int, all_processes: dict[int, Process]) -> float:
    """The time of a process and of all that come from it."""
    children: dict[int, list[int]] = {}
    for pid, process in all_processes.items():
        children.setdefault(process.parent, []).append(pid)
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        if pid in all_processes:
            total += all_processes[pid].seconds
            waiting += children.get(pid, [])
    return total


@dataclass(frozen=True)
class Moment:
    """The clocks at one moment."""

    wall: float
    busy: float
    postgres: float
    worker: float
    driver: float

    @staticmethod
    def now(postgres_pid: int, worker_pid: int) -> "Moment":
        all_processes = processes()
        own = all_processes[os.getpid()].seconds
        return Moment(
            time.monotonic(),
            parse_busy(Path("/proc/stat").read_text()),
            tree_seconds(postgres_pid, all_processes),
            tree_seconds(worker_pid, all_processes),
            own,
        )


@dataclass(frozen=True)
class Usage:
    """What was used between two moments."""

    wall_s: float
    postgres_s: float
    worker_s: float
    # What all others took, of all that the cores could give.
    foreign_share: float

    @staticmethod
    def between(before: Moment, after: Moment, cores: int = CORES) -> "Usage":
        wall = max(after.wall - before.wall, 1e-9)
        postgres = after.postgres - before.postgres
        worker = after.worker - before.worker
        ours = postgres + worker + (after.driver - before.driver)
        foreign = max(0.0, after.busy - before.busy - ours)
        return Usage(wall, postgres, worker, foreign / (wall * cores))
