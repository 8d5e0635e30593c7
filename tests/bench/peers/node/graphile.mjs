// graphile-worker, by its public interface only.

import { Logger, makeWorkerUtils, run, WorkerPreset } from 'graphile-worker'
import pg from 'pg'

import { total } from './order.mjs'
import { databaseUrl, enqueueAll, Latency, payload, ready, Tally, task } from './talk.mjs'

// Its log, one line a job by default, is left out: nobody measures a terminal.
const logger = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message)
})
const options = { preset: { extends: [WorkerPreset], worker: { connectionString: databaseUrl, logger } } }
const jobs = count => Array.from({ length: count }, () => ({ identifier: 'bench', payload }))

function start (handler) {
  return run({
    noHandleSignals: true,
    taskList: { bench: handler },
    preset: {
      extends: [WorkerPreset],
      worker: {
        connectionString: databaseUrl,
        logger,
        taskDirectory: 'no-such-folder',
        crontabFile: 'no-such-file',
        ...task.settings,
      },
    },
  })
}

async function burn (utils) {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  await ready(await enqueueAll(count => utils.addJobs(jobs(count))))
  const tally = new Tally()
  const noop = async () => {
    tally.started()
    tally.handled += 1
  }
  const order = async payload => {
    tally.started()
    const result = total(payload)
    tally.cents += result.total_cents
    tally.handled += 1
    return result
  }
  const runner = await start(task.handler === 'order' ? order : noop)
  await tally.finished(task.jobs, async () => {
    const left = await client.query('select from graphile_worker._private_jobs limit 1')
    return left.rowCount === 0
  })
  await runner.stop()
  await client.end()
}

async function latency (utils) {
  const latency = new Latency()
  const runner = await start(async () => latency.started())
  await new Promise(resolve => setTimeout(resolve, 2000))
  await ready(0)
  await latency.measure(() => utils.addJob('bench', payload))
  await runner.stop()
}

const utils = await makeWorkerUtils(options)
await utils.migrate()
await (task.phase === 'burn' ? burn(utils) : latency(utils))
await utils.release()
