-- Cancels a job that waits: it leaves the live table and becomes history, in one step.
-- $1 job, whose row the caller has locked in this transaction; $2 the reason as a problem.
-- Indexes: jobs_pkey, ready_lanes. Locks: the rows of job and ready. An available job whose ready row is
-- gone has been claimed.
with waiting as (
  delete from stokehold.ready ready
  using stokehold.jobs job
  where job.id = $1 and job.state = 'available'
    and ready.kind_id = job.kind_id and ready.priority = job.priority and ready.position = job.position
  returning ready.job_id
), ended as (
  delete from stokehold.jobs
  where id = $1 and (state <> 'available' or exists (select from waiting))
  returning *
)
insert into stokehold.job_history (
  id, token, run_at, enqueued_at, kind_id, state, priority, attempt, max_attempts, snoozes, lost,
  outcome, media_type, payload, metadata, problem)
select id, token, run_at, enqueued_at, kind_id, 'cancelled', priority, attempt, max_attempts, snoozes,
  lost, 'cancelled', media_type, payload, metadata, $2
from ended
returning id
