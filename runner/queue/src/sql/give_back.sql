-- Gives back what runners hold that no longer live: available again without a counted attempt, or
-- discarded when nodes died under it too often.
-- $1 most rows, $2 the cap of losses.
-- Indexes: claims_pkey, by runner, and jobs_pkey. Locks: the rows, skipping those another sweep has.
-- Any loss makes a job a suspect; after that only the loss of a node that ran it as its suspect counts,
-- so a job is not blamed for the company it kept.
-- However long ago a runner ended: what it claimed stays on record until all of it is given back.
-- Writes find their rows by an array as well as by the join, of which the planner thinks that it is
-- worth a scan of the whole table.
with lost as materialized (
  select job.id, claim.claimed_at, claim.runner_id, claim.token, job.attempt + 1 as this_attempt,
    job.kind_id = any(claim.permits_of) as is_limited, job.kind_id, job.concurrency_key,
    case when job.kind_id = any(claim.permits_of) and job.concurrency_key is not null
      then (select nullif(keeps_order, false) from stokehold.kinds where id = job.kind_id) end as keeps_key,
    case
      when job.lost = 0 then 1
      when runner.suspect_job = job.id then job.lost + 1
      else job.lost
    end as losses
  from stokehold.runners runner
  join stokehold.claims claim on claim.runner_id = runner.id
  cross join unnest(claim.job_ids) as held(id)
  cross join lateral (
    select id, attempt, lost, kind_id, concurrency_key from stokehold.jobs
    where id = held.id and token < claim.token and state = 'available'
    limit 1
    for update skip locked
  ) job
  where runner.state <> 'live'
  limit $1
), recorded as (
  insert into stokehold.job_attempts (job_id, token, runner_id, started_at, attempt, outcome, problem)
  select id, token, runner_id, claimed_at, this_attempt, 'node.lost',
    jsonb_build_object('message', 'the runner that held the job died')
  from lost
), discarded as (
  delete from stokehold.jobs job
  using lost
  where job.id = lost.id and lost.losses >= $2 and job.id = any(array(select id from lost))
  returning job.id, job.run_at, job.enqueued_at, job.kind_id, job.priority, job.max_attempts,
    job.snoozes, job.media_type, job.payload, job.metadata, job.options,
    lost.token, lost.runner_id, lost.claimed_at, lost.this_attempt, lost.losses
), history as (
  insert into stokehold.job_history (
    id, token, runner_id, run_at, enqueued_at, started_at, kind_id, state, priority, attempt,
    max_attempts, snoozes, lost, outcome, media_type, payload, metadata, options, problem)
  select id, token, runner_id, run_at, enqueued_at, claimed_at, kind_id, 'discarded', priority,
    this_attempt, max_attempts, snoozes, losses, 'node.lost', media_type, payload, metadata,
    options,
    jsonb_build_object(
      'message', format('%s runners died while they ran this job', losses),
      'advice', 'Look at the runners'' own logs for the time of the attempts before it is enqueued again.')
  from discarded
), available as (
  update stokehold.jobs job
  set token = lost.token, position = nextval('stokehold.positions'), lost = lost.losses, holds_key = lost.keeps_key
  from lost
  where job.id = lost.id and lost.losses < $2 and job.id = any(array(select id from lost))
  returning job.id, job.kind_id, job.priority, job.position
), freed as (
  insert into stokehold.freed_permits (kind_id, key, running, held)
  select kind_id, concurrency_key, count(*), count(*) filter (where keeps_key is null or losses >= $2)
  from lost where is_limited group by kind_id, concurrency_key
), queued as (
  insert into stokehold.ready (kind_id, priority, position, job_id)
  select kind_id, priority, position, id from available
)
select (select count(*) from available) as "available!", (select count(*) from discarded) as "discarded!"
