"""The Markdown table and the sentence above it."""

from collections.abc import Sequence

from .figures import Row, bare_sql, fastest_peer, product, ratio
from .systems import BATCHED, NOOP

COLUMNS = ("system", "mode", "handler", "jobs", "jobs/s (min–max)", "× fastest peer",
           "× bare SQL", "CPU µs/job PostgreSQL \\| worker", "rows kept",
           "enqueue to start ms p50 / p95 / p99")
RIGHT = {"jobs", "jobs/s (min–max)", "× fastest peer", "× bare SQL"}


def number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def rate(row: Row) -> str:
    if row.rate is None:
        return row.remark or "–"
    span = f" ({number(min(row.rates))}–{number(max(row.rates))})" if len(row.rates) > 1 else ""
    return f"{number(row.rate)}{span}{' *' if row.is_noisy else ''}"


def cpu(row: Row) -> str:
    return f"{number(row.postgres_us, 1)} \\| {number(row.worker_us, 1)}"


def latency(row: Row) -> str:
    if not row.latency_ms:
        return "–"
    return " / ".join(number(row.latency_ms[name], 2) for name in ("p50", "p95", "p99"))


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    handler, shape = row.handler, row.mode.shape
    return [
        row.mode.system, f"{row.mode.name}", handler, number(row.jobs), rate(row),
        number(ratio(row, fastest_peer(rows, handler, shape)), 2),
        number(ratio(row, bare_sql(rows, handler, shape)), 2),
        cpu(row), "yes" if row.mode.rows_kept else "no", latency(row),
    ]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """By handler and shape, then the fastest first."""
    groups = list(dict.fromkeys((row.handler, row.mode.shape) for row in rows))
    shapes = list(dict.fromkeys(row.mode.shape for row in rows))
    handlers = list(dict.fromkeys(handler for handler, _ in groups))
    return sorted(rows, key=lambda row: (handlers.index(row.handler),
                                         shapes.index(row.mode.shape), -(row.rate or 0)))


def headline(rows: Sequence[Row]) -> str:
    """The product against the fastest peer, both batched, jobs that do nothing."""
    own = product(rows, NOOP, BATCHED)
    peer, sql = fastest_peer(rows, NOOP, BATCHED), bare_sql(rows, NOOP, BATCHED)
    if ratio(own, peer) is None:
        return "No ratio: Stokehold or every peer is missing from these runs."
    sentence = (f"Stokehold, each job in a fresh sandbox, does {number(own.rate)} no-op jobs/s: "
                f"**{ratio(own, peer):.2f} times** the fastest queue with native handlers "
                f"({peer.mode.system}, {number(peer.rate)} jobs/s)")
    if ratio(own, sql) is not None:
        sentence += f" and {ratio(own, sql):.2f} of bare SQL without a runner"
    if own.is_noisy or peer.is_noisy:
        sentence += " (on a busy machine: not to be relied on)"
    return sentence + "."


def markdown(rows: Sequence[Row], facts: Sequence[str]) -> str:
    lines = [headline(rows), "", *(f"- {fact}" for fact in facts), ""]
    lines.append("| " + " | ".join(COLUMNS) + " |")
    lines.append("|" + "|".join("---:" if name in RIGHT else "---" for name in COLUMNS) + "|")
    lines += ["| " + " | ".join(cells(row, rows)) + " |" for row in in_order(rows)]
    lines += ["", "Medians over the rounds. Ratios compare within one handler and one way of taking "
              "jobs (batched, or one at a time)."]
    if any(row.is_noisy for row in rows):
        lines.append("\\* Other processes took more than 12 % of the machine: not to be relied on.")
    return "\n".join(lines) + "\n"
