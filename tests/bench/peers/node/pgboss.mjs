// pg-boss, by its public interface only.

import pg from 'pg'
import { PgBoss } from 'pg-boss'

import { total } from './order.mjs'
import { databaseUrl, enqueueAll, Latency, payload, ready, Tally, task } from './talk.mjs'

const QUEUE = 'bench'
const { loops, notify = false, work = {} } = task.settings
const boss = new PgBoss({ connectionString: databaseUrl, useListenNotify: notify })
boss.on('error', error => console.error(error))

const tally = new Tally()

/** The handler of one job; what it returns is kept as the job's output. */
function handle (job) {
  tally.started()
  tally.handled += 1
  if (task.handler !== 'order') return undefined
  const result = total(job.data)
  tally.cents += result.total_cents
  return result
}

/** Workers that pg-boss runs itself, a batch a call. */
function workBatches () {
  const perJobResults = task.handler === 'order'
  return boss.work(QUEUE, { ...work, perJobResults }, async batch => {
    const outputs = batch.map(job => ({ id: job.id, status: 'completed', output: handle(job) }))
    return perJobResults ? outputs : undefined
  })
}

/** Loops of fetch and complete, one job each. */
async function fetchLoop () {
  for (;;) {
    const [job] = await boss.fetch(QUEUE)
    if (!job) return
    await boss.complete(QUEUE, job.id, handle(job))
  }
}

async function burn () {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  await ready(await enqueueAll(count =>
    boss.insert(QUEUE, Array.from({ length: count }, () => ({ data: payload })))))
  tally.begun = performance.now()
  const working = loops
    ? Promise.all(Array.from({ length: loops }, fetchLoop))
    : workBatches()
  await tally.finished(task.jobs, async () => {
    const left = await client.query(
      "select from pgboss.job where name = $1 and state < 'completed' limit 1", [QUEUE])
    return left.rowCount === 0
  })
  await working
  await client.end()
}

async function latency () {
  const latency = new Latency()
  await boss.work(QUEUE, work, async () => latency.started())
  await new Promise(resolve => setTimeout(resolve, 2000))
  await ready(0)
  await latency.measure(() => boss.send(QUEUE, payload))
}

await boss.start()
await boss.createQueue(QUEUE, { notify })
await (task.phase === 'burn' ? burn() : latency())
await boss.stop({ graceful: false })
process.exit(0)
