"""The product's own benchmark: all that is known here about `stokehold bench` is in this file.

It enqueues, runs and reports itself. Flags that a binary does not have are left out, so that this
works with older ones as far as they go; a field that is absent is a figure that is not known."""

import functools
import json
import subprocess
from pathlib import Path

from . import order
from .systems import NOOP, ORDER, Mode

# Handlers that are built into the binary.
BUILT_IN = {"component": "noop", "command": "noop-command"}


class NotOffered(Exception):
    """This binary cannot do the run."""


@functools.cache
def help_text(binary: Path) -> str:
    answer = subprocess.run([binary, "bench", "--help"], capture_output=True, text=True)
    if answer.returncode:
        raise NotOffered(f"{binary} has no `bench`: {answer.stderr.strip()}")
    return answer.stdout


def command(binary: Path, mode: Mode, handler: str, jobs: int, singles: int,
            payload: Path, module: Path) -> list:
    """The call for one run. The database goes by DATABASE_URL, where no list of processes shows
    its password."""
    flags = help_text(binary)
    call = [binary, "bench", "--jobs", str(jobs), "--json"]
    if "slots" in mode.settings:
        call += ["--slots", str(mode.settings["slots"])]
    if "--latency-jobs" in flags:
        call += ["--latency-jobs", str(singles)]
    if "--keep" in flags:
        # The rows are looked at afterwards.
        call += ["--keep"]
    if handler == NOOP:
        return call + ["--handler", BUILT_IN[mode.settings.get("guest", "component")]]
    if "--payload-file" not in flags:
        raise NotOffered("this binary's `bench` runs no-ops only: it has no --payload-file")
    if not module.exists():
        raise NotOffered(f"{module} is missing: run scripts/build-guests order-total")
    return call + ["--handler", module, "--payload-file", payload]


def verify(ask, jobs: int, handler: str) -> None:
    """Looks into the database whether every job was completed, and with the right result: a
    handler that fails quickly would make a fast benchmark. `ask` runs a statement."""
    right = "state = 'completed'"
    if handler == ORDER:
        wanted = json.dumps(order.total())
        right += f" and convert_from(result, 'UTF8')::jsonb = '{wanted}'"
    good = int(ask(f"select count(*) from stokehold.job_history where {right}"))
    if good < jobs:
        raise ValueError(f"{good} of {jobs} jobs were completed with the right result")


def read(text: str) -> dict:
    """Its figures under the names used here."""
    said = json.loads(text)
    figures = {
        "jobs_per_s": said["jobs_per_s"],
        "postgres_us_per_job": said.get("postgres_cpu_us_per_job"),
        "worker_us_per_job": said.get("node_cpu_us_per_job"),
        "enqueue_jobs_per_s": said.get("enqueue_jobs_per_s"),
        "reported": said,
    }
    if latency := said.get("enqueue_to_start_ms"):
        figures["latency_ms"] = {name: latency[name] for name in ("p50", "p95", "p99")}
    return figures
