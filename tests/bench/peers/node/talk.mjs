// How a run talks to the driver: lines of JSON on stdout, one line on stdin.
//
// `ready` (all is enqueued, or an idle worker waits), then the driver reads the CPU times and
// answers with a line, then the clock runs, then `finished` with what was measured.

import { once } from 'node:events'
import { readFileSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** What this run has to do, as the driver says it. */
export const task = JSON.parse(process.argv[2])
export const databaseUrl = process.env.DATABASE_URL

/** What each job carries. */
export const payload = task.handler === 'order'
  ? JSON.parse(readFileSync(task.payload_file, 'utf8'))
  : { n: 1 }

const say = value => writeSync(1, JSON.stringify(value) + '\n')

export async function ready (enqueueSeconds) {
  say({ event: 'ready', enqueue_s: enqueueSeconds })
  await once(process.stdin, 'data')
  process.stdin.pause()
}

/** What the handlers of a run have done, and since when. */
export class Tally {
  handled = 0
  cents = 0
  first = undefined
  begun = performance.now()

  started () {
    this.first ??= performance.now()
  }

  /** Waits for so many handlers without asking the database, and then until `isDone` says so. */
  async finished (jobs, isDone) {
    while (this.handled < jobs) await sleep(2)
    while (!await isDone()) await sleep(5)
    const seconds = (performance.now() - this.begun) / 1e3
    const firstStart = (this.first - this.begun) / 1e3
    say({
      event: 'finished',
      seconds,
      first_start_s: firstStart,
      handled: this.handled,
      cents: this.cents,
    })
  }
}

/** Calls `enqueue` in so many chunks as make up the task's jobs; says how long it took. */
export async function enqueueAll (enqueue, chunk = 1000) {
  const begun = performance.now()
  for (let from = 0; from < task.jobs; from += chunk) {
    await enqueue(Math.min(chunk, task.jobs - from))
  }
  return (performance.now() - begun) / 1e3
}

/** Times from just before the enqueue call to the first line of the handler. */
export class Latency {
  #tell = undefined
  times = []

  /** The handler's first line. */
  started () {
    this.#tell?.(performance.now())
  }

  async measure (enqueue) {
    for (const pause of task.pauses_ms) {
      await sleep(pause)
      const start = new Promise((resolve, reject) => {
        this.#tell = resolve
        setTimeout(() => reject(new Error('a job was not started in 10 s')), 10_000).unref()
      })
      const sent = performance.now()
      await enqueue()
      this.times.push(await start - sent)
    }
    say({ event: 'finished', latency_ms: this.times })
  }
}
