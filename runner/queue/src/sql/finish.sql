-- Ends jobs for good: each row leaves the live table and becomes history, in one step.
-- $1 runner; the rest are arrays with one element for each job.
-- Index: jobs_pkey. Locks: the rows themselves, in order of id as the caller sorted them.
-- The guard (token, runner, running) is what makes one outcome: a stale one deletes nothing and so
-- inserts nothing. It stands in the delete itself, which looks at a row again that changed meanwhile.
-- The rows are found one by one through the primary key and then by their place: a join on the id left
-- the planner other ways, of which it chose a scan of everything whenever the table had been empty. Found
-- apart, so that where the settings of a session do not reach (see database.rs) the worst that it can
-- choose reads the table once: written as one join, 3,000 outcomes took over 10 s.
with found as materialized (
  select outcome.*, job.ctid
  from unnest($2::bigint[], $3::bigint[], $4::int[], $5::text[], $6::text[], $7::bytea[], $8::text[],
      $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
    as outcome(job_id, token, release, next_state, code, result, result_media_type,
      problem, fuel, wall_us, peak_memory_bytes, host_calls)
  cross join lateral (select ctid from stokehold.jobs where id = outcome.job_id limit 1) job
), ended as (
  delete from stokehold.jobs job
  using found
  where job.ctid = found.ctid
    and job.token = found.token and job.runner_id = $1 and job.state = 'running'
  returning job.*, found.release, found.next_state, found.code, found.result,
    found.result_media_type, found.problem, found.fuel, found.wall_us,
    found.peak_memory_bytes, found.host_calls
)
insert into stokehold.job_history (
  id, token, runner_id, run_at, enqueued_at, started_at, kind_id, release, state, priority, attempt,
  max_attempts, snoozes, lost, outcome, media_type, payload, metadata, result, result_media_type,
  problem, fuel, wall_us, peak_memory_bytes, host_calls)
select id, token, runner_id, run_at, enqueued_at, started_at, kind_id, release,
  next_state::stokehold.job_state, priority, attempt, max_attempts, snoozes, lost, code, media_type,
  payload, metadata, result, result_media_type, problem::jsonb, fuel, wall_us, peak_memory_bytes,
  host_calls
from ended
returning id, token
