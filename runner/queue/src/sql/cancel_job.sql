-- Cancels a job that waits: it leaves the live table and becomes history, in one step.
-- $1 job, $2 the reason as a problem. Index: jobs_pkey. Locks: the row.
with ended as (
  delete from stokehold.jobs
  where id = $1 and state in ('scheduled', 'available', 'retryable', 'pending')
  returning *
)
insert into stokehold.job_history (
  id, token, run_at, enqueued_at, kind_id, state, priority, attempt, max_attempts, snoozes, lost,
  outcome, media_type, payload, metadata, problem)
select id, token, run_at, enqueued_at, kind_id, 'cancelled', priority, attempt, max_attempts, snoozes,
  lost, 'cancelled', media_type, payload, metadata, $2
from ended
returning id
