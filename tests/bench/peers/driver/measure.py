"""Makes one run: a fresh database, the system's process, the clocks before and after."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from . import order, stokehold
from .cpu import Moment, Usage
from .figures import Result, percentiles
from .plan import BURN, Run, Size, pauses_ms
from .server import Server, ServerError
from .systems import ORDER
from .worker import Worker, WorkerError

# A system that takes longer than this to enqueue, or to work off, counts as failed.
ENQUEUE_S, BURN_S, LATENCY_S = 300, 900, 300


@dataclass(frozen=True)
class Tools:
    """Where what was installed and built stands."""

    folder: Path
    stokehold: Path
    module: Path

    def command(self, program: str) -> list:
        """The start of a command line, for a program as a mode names it."""
        kind, _, name = program.partition(":")
        if kind == "node":
            node = next(self.folder.glob("node/node_modules/node-linux-*/bin/node"), "node")
            return [node, name]
        if kind == "python":
            return [self.folder / "python/bin/python", "-B", self.folder / "python" / name]
        return [self.folder / "cargo/release/peers"]

    def place(self, program: str) -> Path:
        """The folder in which a program runs: Node.js looks for packages beside it."""
        return self.folder / "node" if program.startswith("node:") else self.folder


class Bench:
    """Everything that runs have in common."""

    def __init__(self, server: Server, tools: Tools, size: Size, payload: Path):
        self.server, self.tools, self.size, self.payload = server, tools, size, payload
        self.made = 0

    def measure(self, run: Run) -> Result:
        """Makes a run; if others were busy meanwhile, once more, and the quieter one counts."""
        result = self._once(run)
        if result.is_noisy and not result.error:
            again = self._once(run)
            if not again.error and again.foreign_share < result.foreign_share:
                result = again
            result.figures["tried_again"] = True
        return result

    def _once(self, run: Run) -> Result:
        self.made += 1
        database = f"run_{self.made}"
        try:
            environment = {"DATABASE_URL": self.server.create(database)}
            try:
                if run.mode.program == "stokehold":
                    return self._product(run, environment, database)
                return self._peer(run, environment, database)
            finally:
                self.server.drop(database)
        except stokehold.NotOffered as reason:
            return Result(run, error=str(reason), not_offered=True)
        except (WorkerError, ServerError, KeyError, ValueError, OSError) as error:
            return Result(run, error=f"{type(error).__name__}: {error}")

    def _now(self, worker: Worker) -> Moment:
        return Moment.now(self.server.pid, worker.pid)

    def _product(self, run: Run, environment: dict[str, str], database: str) -> Result:
        call = stokehold.command(self.tools.stokehold, run.mode, run.handler, run.jobs,
                                 self.size.singles, self.payload, self.tools.module)
        with Worker(call, environment, self.tools.folder) as worker:
            before = self._now(worker)
            text = worker.all_output(BURN_S)
            # Its own time now stands with us, who waited for it.
            after = self._now(worker)
        stokehold.verify(lambda text: self.server.ask(text, database), run.jobs, run.handler)
        usage = Usage.between(before, after)
        return Result(run, stokehold.read(text), usage.foreign_share)

    def _peer(self, run: Run, environment: dict[str, str], database: str) -> Result:
        mode, is_burn = run.mode, run.phase == BURN
        task = {
            "system": mode.program.partition(":")[2],
            "phase": run.phase,
            "jobs": run.jobs,
            "handler": run.handler,
            "payload_file": str(self.payload),
            "settings": mode.settings if is_burn else mode.latency,
            "pauses_ms": [] if is_burn else pauses_ms(run.jobs),
        }
        call = [*self.tools.command(mode.program), json.dumps(task)]
        with Worker(call, environment, self.tools.place(mode.program)) as worker:
            ready = worker.hear("ready", ENQUEUE_S)
            if is_burn and mode.analyze:
                self.server.ask("vacuum analyze", database)
            before = self._now(worker)
            worker.go()
            said = worker.hear("finished", BURN_S if is_burn else LATENCY_S)
            after = self._now(worker)
            worker.ended()
        usage = Usage.between(before, after)
        figures = burned(run, ready, said, usage) if is_burn else waited(said)
        return Result(run, figures, usage.foreign_share)


def burned(run: Run, ready: dict, said: dict, usage: Usage) -> dict:
    """The figures of a throughput run, if the work was really done."""
    if said["handled"] < run.jobs:
        raise WorkerError(f"{said['handled']} of {run.jobs} jobs were handled")
    expected = order.total_cents() * said["handled"] if run.handler == ORDER else 0
    if said["cents"] != expected:
        raise WorkerError(f"the orders add up to {said['cents']} and not {expected} cents")
    return {
        "jobs_per_s": run.jobs / said["seconds"],
        "seconds": said["seconds"],
        "first_start_s": said["first_start_s"],
        "handled": said["handled"],
        "enqueue_jobs_per_s": run.jobs / ready["enqueue_s"],
        "postgres_us_per_job": usage.postgres_s * 1e6 / run.jobs,
        "worker_us_per_job": usage.worker_s * 1e6 / run.jobs,
    }


def waited(said: dict) -> dict:
    times = said["latency_ms"]
    return {"latency_ms": percentiles(times), "singles": len(times)}


def machine(server: Server) -> dict:
    """What the figures depend on."""
    cpus = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in cpus.splitlines()
                  if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "cpu": model,
        "memory_gib": round(memory / 2**30, 1),
        "kernel": os.uname().release,
        "postgres": server.ask("show server_version"),
        "filesystem": filesystem(server.folder),
    }


def filesystem(folder: Path) -> str:
    """The kind of file system that a folder is on: on tmpfs, durability costs nothing."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, mount, found = line.split()[:3]
        is_above = str(folder).startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(best):
            best, kind = mount, found
    return kind
