"""Medians, percentiles, and the rows that come of many runs."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .plan import BURN, Run
from .systems import NOOP, SQL, STOKEHOLD, Mode

# A run beside which others took more of the machine than this is made again, once.
MOST_FOREIGN_SHARE = 0.12
PERCENTILES = (50, 95, 99)


@dataclass
class Result:
    """What one run gave."""

    run: Run
    figures: dict = field(default_factory=dict)
    foreign_share: float = 0.0
    error: str | None = None
    # The binary under test cannot do this run, which is no failure.
    not_offered: bool = False

    @property
    def is_noisy(self) -> bool:
        return self.foreign_share > MOST_FOREIGN_SHARE

    def as_json(self) -> dict:
        run = self.run
        return {
            "round": run.round, "system": run.mode.system, "mode": run.mode.name,
            "shape": run.mode.shape, "phase": run.phase, "handler": run.handler,
            "jobs": run.jobs, "foreign_share": round(self.foreign_share, 4),
            "noisy": self.is_noisy, "error": self.error, **self.figures,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many per cent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}


def median(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


@dataclass
class Row:
    """One system in one mode with one handler, over all rounds."""

    mode: Mode
    handler: str
    jobs: int
    # Jobs a second of each run that counts.
    rates: list[float] = field(default_factory=list)
    postgres_us: float | None = None
    worker_us: float | None = None
    latency_ms: dict[str, float] | None = None
    # Every run was noisy, so noisy ones were taken.
    is_noisy: bool = False
    remark: str | None = None

    @property
    def rate(self) -> float | None:
        return median(self.rates)


def counting(results: list[Result]) -> tuple[list[Result], bool]:
    """Quiet runs, or all of them where none was quiet; and whether it came to that."""
    good = [result for result in results if not result.error]
    quiet = [result for result in good if not result.is_noisy]
    return (quiet, False) if quiet else (good, bool(good))


def rows(results: Sequence[Result]) -> list[Row]:
    """One row for each mode and handler, in the order of their first run in the plan."""
    made: dict[tuple[Mode, str], list[Result]] = {}
    latencies: dict[Mode, list[Result]] = {}
    for result in results:
        mode = result.run.mode
        if result.run.phase == BURN:
            made.setdefault((mode, result.run.handler), []).append(result)
            if result.run.handler != NOOP:
                continue
        if "latency_ms" in result.figures:
            latencies.setdefault(mode, []).append(result)
    return [row_of(mode, handler, runs, latencies.get(mode, []) if handler == NOOP else [])
            for (mode, handler), runs in made.items()]


def row_of(mode: Mode, handler: str, runs: list[Result], latencies: list[Result]) -> Row:
    counted, is_noisy = counting(runs)
    row = Row(mode, handler, runs[0].run.jobs, is_noisy=is_noisy)
    row.rates = [run.figures["jobs_per_s"] for run in counted]
    row.postgres_us = median(run.figures.get("postgres_us_per_job") for run in counted)
    row.worker_us = median(run.figures.get("worker_us_per_job") for run in counted)
    if not counted:
        row.remark = "not offered" if runs[0].not_offered else "failed"
    waited = [run.figures["latency_ms"] for run in counting(latencies)[0]]
    if waited:
        row.latency_ms = {name: statistics.median(each[name] for each in waited)
                          for name in waited[0]}
    return row


def fastest(rows: Iterable[Row]) -> Row | None:
    return max((row for row in rows if row.rate), key=lambda row: row.rate, default=None)


def fastest_peer(rows: Sequence[Row], handler: str, shape: str) -> Row | None:
    return fastest(row for row in rows if row.mode.is_peer
                   and (row.handler, row.mode.shape) == (handler, shape))


def bare_sql(rows: Sequence[Row], handler: str, shape: str) -> Row | None:
    return fastest(row for row in rows if row.mode.system == SQL
                   and (row.handler, row.mode.shape) == (handler, shape))


def product(rows: Sequence[Row], handler: str, shape: str) -> Row | None:
    """Stokehold as it comes, whichever of its other modes was faster."""
    return fastest(row for row in rows if row.mode.system == STOKEHOLD and not row.mode.settings
                   and (row.handler, row.mode.shape) == (handler, shape))


def ratio(row: Row | None, other: Row | None) -> float | None:
    if row is None or other is None or not row.rate or not other.rate:
        return None
    return row.rate / other.rate
