"""The systems that are compared and their settings; ../README.md says where each is documented."""

from dataclasses import dataclass, field

NOOP, ORDER = "noop", "order"
# How a mode takes and ends jobs. Ratios are formed within one shape only.
BATCHED, SINGLE = "batched", "one at a time"

SQL, STOKEHOLD = "bare SQL", "Stokehold"


@dataclass(frozen=True)
class Mode:
    """One way to run one system."""

    system: str
    name: str
    shape: str
    # What runs it: a file of ../node or ../python, a system of ../rust, or the product itself.
    program: str
    settings: dict = field(default_factory=dict, hash=False)
    # Settings of the latency run; without them there is none.
    latency: dict | None = field(default=None, hash=False)
    handlers: tuple[str, ...] = (NOOP, ORDER)
    rows_kept: bool = True
    # Whether the filled tables are vacuumed and analysed before the clock starts, as autovacuum would
    # within a minute. Without, the planner takes them for empty; which is faster was tried for each.
    analyze: bool = True
    # Roughly what it does in a second, if so little that the full number of jobs takes too long.
    slow_jobs_per_s: int | None = None

    @property
    def is_peer(self) -> bool:
        """Whether it is another queue, whose handlers are native code."""
        return self.system not in (SQL, STOKEHOLD)


GRAPHILE = "graphile-worker 0.18.0"
PGBOSS = "pg-boss 12.38.0"
APALIS = "apalis-postgres 1.0.0"
PROCRASTINATE = "procrastinate 3.10.0"

_graphile_tuned = {
    "concurrentJobs": 24,
    "maxPoolSize": 25,
    "localQueue": {"size": 500},
    "completeJobBatchDelay": 0,
    "failJobBatchDelay": 0,
}
_pgboss_tuned = {
    "work": {
        "batchSize": 1000,
        "localConcurrency": 4,
        "burstWhenBatchFull": True,
        "pollingIntervalSeconds": 0.5,
    }
}

MODES = (
    Mode(SQL, "100 a claim, 4 connections", BATCHED, "rust:sql",
         {"batch": 100, "connections": 4}, latency={"batch": 1}),
    Mode(STOKEHOLD, "component", BATCHED, "stokehold"),
    Mode(GRAPHILE, "localQueue 500, completions batched", BATCHED, "node:graphile.mjs",
         _graphile_tuned, latency=_graphile_tuned, rows_kept=False),
    Mode(PGBOSS, "4 workers, batchSize 1000", BATCHED, "node:pgboss.mjs",
         _pgboss_tuned, latency={"notify": True}),
    Mode(APALIS, "batch_size 1000, lock_tasks off", BATCHED, "rust:apalis",
         {"batch": 1000, "lock_tasks": False}, latency={}, analyze=False),
    Mode(APALIS, "defaults: batch_size 10", BATCHED, "rust:apalis", analyze=False,
         slow_jobs_per_s=1_900),
    Mode(STOKEHOLD, "WASI command", BATCHED, "stokehold", {"guest": "command"},
         handlers=(NOOP,)),
    # One handler at a time; its claims and outcomes still go in groups, so the shape is the same.
    Mode(STOKEHOLD, "component, 1 slot", BATCHED, "stokehold", {"slots": 1}),
    Mode(SQL, "1 a claim, 16 connections", SINGLE, "rust:sql",
         {"batch": 1, "connections": 16}, slow_jobs_per_s=6_500),
    Mode(GRAPHILE, "no batching, concurrentJobs 10", SINGLE, "node:graphile.mjs",
         {"concurrentJobs": 10}, latency={"concurrentJobs": 10}, rows_kept=False,
         slow_jobs_per_s=3_500),
    Mode(PGBOSS, "fetch() and complete(), 10 loops", SINGLE, "node:pgboss.mjs",
         {"loops": 10}, slow_jobs_per_s=1_800),
    Mode(PROCRASTINATE, "concurrency 10", SINGLE,
         "python:procrastinate_run.py",
         {"concurrency": 10}, latency={"concurrency": 10}, slow_jobs_per_s=750),
)
