"""procrastinate, by its public interface only. One invocation is one run; its argument is a task
in JSON. What it says to the driver, and when, is what talk.mjs and talk.rs say too."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import procrastinate
import psycopg

TASK = json.loads(sys.argv[1])
DATABASE_URL = os.environ["DATABASE_URL"]
ENQUEUE = 1000

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DATABASE_URL))


def payload() -> dict:
    if TASK["handler"] == "order":
        return {"order": json.loads(Path(TASK["payload_file"]).read_text())}
    return {"n": 1}


def say(**event) -> None:
    print(json.dumps(event), flush=True)


async def ready(enqueue_s: float) -> None:
    say(event="ready", enqueue_s=enqueue_s)
    if not await asyncio.to_thread(sys.stdin.readline):
        raise SystemExit("the driver has gone")


class Tally:
    """What the handlers of a run have done."""

    handled = 0
    cents = 0
    first: float | None = None

    @classmethod
    def started(cls) -> None:
        if cls.first is None:
            cls.first = time.perf_counter()


@app.task
async def noop(n: int) -> None:
    Tally.started()
    Tally.handled += 1


@app.task
async def order(order: dict) -> dict:
    Tally.started()
    cents = sum(line["quantity"] * line["price_cents"] for line in order["lines"])
    Tally.cents += cents
    Tally.handled += 1
    return {"order": order["id"], "lines": len(order["lines"]), "total_cents": cents}


starts: asyncio.Queue[float] = asyncio.Queue()


@app.task
async def tell(n: int) -> None:
    starts.put_nowait(time.perf_counter())


def start_worker() -> asyncio.Task:
    return asyncio.create_task(
        app.run_worker_async(install_signal_handlers=False, **TASK["settings"])
    )


async def burn() -> None:
    chosen, job = (order if TASK["handler"] == "order" else noop), payload()
    begun = time.perf_counter()
    for first in range(0, TASK["jobs"], ENQUEUE):
        await chosen.batch_defer_async(*[job] * min(ENQUEUE, TASK["jobs"] - first))
    await ready(time.perf_counter() - begun)

    begun = time.perf_counter()
    worker = start_worker()
    while Tally.handled < TASK["jobs"] and not worker.done():
        await asyncio.sleep(0.002)
    left = "select from procrastinate_jobs where status in ('todo', 'doing') limit 1"
    async with await psycopg.AsyncConnection.connect(DATABASE_URL, autocommit=True) as client:
        while (await client.execute(left)).rowcount and not worker.done():
            await asyncio.sleep(0.005)
    say(
        event="finished",
        seconds=time.perf_counter() - begun,
        first_start_s=(Tally.first or begun) - begun,
        handled=Tally.handled,
        cents=Tally.cents,
    )
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


async def latency() -> None:
    worker = start_worker()
    await asyncio.sleep(2)
    await ready(0.0)
    times = []
    for pause_ms in TASK["pauses_ms"]:
        await asyncio.sleep(pause_ms / 1e3)
        sent = time.perf_counter()
        await tell.defer_async(n=1)
        started = await asyncio.wait_for(starts.get(), timeout=10)
        times.append((started - sent) * 1e3)
    say(event="finished", latency_ms=times)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await (burn() if TASK["phase"] == "burn" else latency())


asyncio.run(main())
