#!/usr/bin/env python3
"""Runs Stokehold and other job queues beside each other on one PostgreSQL server.

`make bench-peers` installs and builds what this needs and calls it; README.md tells the rest."""

import argparse
import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from driver import order, plot, table
from driver.figures import Result, rows
from driver.measure import Bench, Tools, machine
from driver.plan import Run, Size, chosen, interleaved
from driver.server import SETTINGS, Server, ServerError
from driver.systems import MODES

REPOSITORY = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").absolute()
PEERS = REPOSITORY / "target/peers"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true",
                        help="20,000 jobs and one round: does everything work?")
    parser.add_argument("--jobs", type=int, metavar="N", help="jobs of a throughput run [400000]")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each is run [3]")
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="only systems or modes with this word; may be given again")
    parser.add_argument("--data", metavar="FOLDER", default="/var/tmp",
                        help="where the database goes: a real disk [%(default)s]")
    parser.add_argument("--results", type=Path, metavar="FOLDER", default=PEERS / "results",
                        help="where table, JSON and plot go [target/peers/results]")
    parser.add_argument("--list", action="store_true", help="show the plan and stop")
    chosen_ones = parser.parse_args()
    for name in ("jobs", "rounds"):
        value = getattr(chosen_ones, name)
        if value is not None and value < 1:
            parser.error(f"--{name} is {value}: at least 1 is needed")
    return chosen_ones


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell(result: Result) -> None:
    if result.error:
        say(f"    {'not offered' if result.not_offered else 'FAILED'}: {result.error}")
        return
    parts = []
    if "jobs_per_s" in result.figures:
        parts.append(f"{result.figures['jobs_per_s']:,.0f} jobs/s")
    if "latency_ms" in result.figures:
        parts.append("p50 {p50:.2f}, p99 {p99:.2f} ms".format(**result.figures["latency_ms"]))
    share = f"others {result.foreign_share:.0%}{', noisy' if result.is_noisy else ''}"
    say(f"    {', '.join(parts)} ({share})")


def write(folder: Path, facts: dict, results: list[Result]) -> None:
    """Table, JSON and plot of all that was measured so far."""
    folder.mkdir(parents=True, exist_ok=True)
    made = rows(results)
    host = facts["machine"]
    lines = [
        f"{host['cores']} cores ({host['cpu']}), {host['memory_gib']:.0f} GiB, database on "
        f"{host['filesystem']}; clients and server share them",
        f"PostgreSQL {host['postgres']}, "
        + ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
        f"{facts['rounds']} round(s), interleaved; slow modes have fewer jobs (column `jobs`)",
    ]
    (folder / "peers.md").write_text(table.markdown(made, lines))
    (folder / "peers.svg").write_text(plot.svg(made))
    document = facts | {"runs": [result.as_json() for result in results]}
    (folder / "peers.json").write_text(json.dumps(document, indent=1) + "\n")


def run_all(options: argparse.Namespace, plan: list[Run], size: Size) -> list[Result]:
    binary = Path(os.environ.get("STOKEHOLD_BIN") or TARGET / "release/stokehold").absolute()
    tools = Tools(PEERS, binary, TARGET / "guests/order-total.wasm")
    payload = order.write(PEERS)
    results: list[Result] = []
    with Server(options.data) as server:
        facts = {
            "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": machine(server),
            "postgres_settings": SETTINGS,
            "rounds": max(run.round for run in plan),
            "size": dataclasses.asdict(size),
        }
        if facts["machine"]["filesystem"] == "tmpfs":
            say(f"warning: {options.data} is in memory, where durable commits cost nothing")
        bench = Bench(server, tools, size, payload)
        try:
            for number, run in enumerate(plan, 1):
                say(f"[{number}/{len(plan)}] {run}")
                results.append(bench.measure(run))
                tell(results[-1])
        finally:
            # What was measured before a Ctrl-C is not lost.
            if results:
                write(options.results, facts, results)
    return results


def main() -> int:
    options = arguments()
    size = Size.of(options.jobs, options.quick)
    rounds = options.rounds or (1 if options.quick else 3)
    plan = interleaved(chosen(MODES, options.only), rounds, size)
    if not plan:
        say(f"no system or mode has {' or '.join(options.only)} in its name")
        return 2
    if options.list:
        print("\n".join(f"round {run.round}: {run}" for run in plan))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = run_all(options, plan, size)
    except KeyboardInterrupt:
        say("stopped; the server is gone")
        return 130
    except ServerError as error:
        say(f"bench-peers: {error}")
        return 1
    print((options.results / "peers.md").read_text())
    say(f"table, figures and plot are in {options.results}")
    return 1 if any(result.error and not result.not_offered for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
