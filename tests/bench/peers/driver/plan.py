"""Which runs are made, in which order, with how many jobs."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .systems import NOOP, Mode

BURN, LATENCY = "burn", "latency"

FULL_JOBS, QUICK_JOBS = 400_000, 20_000
# What a slow mode is given to do.
FULL_SLOW_S, QUICK_SLOW_S = 20, 1
FEWEST_JOBS = 200
# Single jobs of a latency run, and the pauses before them: spread, so that they meet no rhythm.
FULL_SINGLES, QUICK_SINGLES = 300, 40
PAUSES_MS = (2, 52)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    jobs: int = FULL_JOBS
    slow_s: int = FULL_SLOW_S
    singles: int = FULL_SINGLES

    @staticmethod
    def of(jobs: int | None, quick: bool) -> "Size":
        if quick:
            return Size(jobs or QUICK_JOBS, QUICK_SLOW_S, QUICK_SINGLES)
        return Size(jobs or FULL_JOBS)

    def jobs_of(self, mode: Mode) -> int:
        """All, or for a slow mode about as many as it does in its time."""
        if mode.slow_jobs_per_s is None:
            return self.jobs
        return min(self.jobs, max(FEWEST_JOBS, mode.slow_jobs_per_s * self.slow_s))


@dataclass(frozen=True)
class Run:
    """One process on one fresh database."""

    round: int
    mode: Mode
    phase: str
    handler: str
    jobs: int

    def __str__(self) -> str:
        what = f"{self.handler}, {self.jobs} jobs" if self.phase == BURN else "latency"
        return f"{self.mode.system}, {self.mode.name}: {what}"


def chosen(modes: Iterable[Mode], only: Sequence[str]) -> list[Mode]:
    """The modes whose system or own name holds one of the words; all without any."""
    words = [word.lower() for word in only]
    return [
        mode
        for mode in modes
        if not words or any(word in f"{mode.system} {mode.name}".lower() for word in words)
    ]


def interleaved(modes: Sequence[Mode], rounds: int, size: Size) -> list[Run]:
    """Every run once a round. Each round begins elsewhere, so that no system always follows the
    same one, and what changes with time on the machine meets all alike."""
    once = [(mode, BURN, handler) for handler in handlers(modes) for mode in modes
            if handler in mode.handlers]
    once += [(mode, LATENCY, NOOP) for mode in modes if mode.latency is not None]
    plan = []
    for number in range(rounds):
        start = number * len(once) // max(rounds, 1)
        for mode, phase, handler in once[start:] + once[:start]:
            jobs = size.jobs_of(mode) if phase == BURN else size.singles
            plan.append(Run(number + 1, mode, phase, handler, jobs))
    return plan


def handlers(modes: Sequence[Mode]) -> list[str]:
    """All handlers that some mode has, in the order of their first mention."""
    return list(dict.fromkeys(handler for mode in modes for handler in mode.handlers))


def pauses_ms(count: int) -> list[int]:
    """The same pauses for everyone."""
    draw = random.Random(1)
    return [draw.randint(*PAUSES_MS) for _ in range(count)]
