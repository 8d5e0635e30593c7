-- Gives jobs back to the queue after an attempt that did not end them: retried, snoozed or handed back.
-- $1 runner; the rest are arrays with one element for each job.
-- Index: jobs_pkey, and then by place; for the form and the guard see finish.sql. Locks: the rows
-- themselves, in order of id as the caller sorted them.
with found as materialized (
  -- The row as it was, for what the update takes away.
  select outcome.*, job.ctid, job.started_at as was_started_at, job.attempt as was_attempt
  from unnest($2::bigint[], $3::bigint[], $4::int[], $5::text[], $6::bigint[], $7::boolean[],
      $8::boolean[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
    as outcome(job_id, token, release, next_state, delay_ms, counted, recorded, code, problem,
      fuel, wall_us, peak_memory_bytes, host_calls)
  cross join lateral (
    select ctid, started_at, attempt from stokehold.jobs where id = outcome.job_id limit 1) job
), released as (
  update stokehold.jobs job
  set state = found.next_state::stokehold.job_state,
    runner_id = null,
    started_at = null,
    position = case when found.next_state = 'available' then nextval('stokehold.positions') end,
    run_at = case when found.next_state = 'available' then job.run_at
      else clock_timestamp() + found.delay_ms * interval '1 millisecond' end,
    attempt = job.attempt - case when found.counted then 0 else 1 end,
    snoozes = job.snoozes + case when found.next_state = 'scheduled' then 1 else 0 end,
    last_problem = coalesce(found.problem::jsonb, job.last_problem)
  from found
  where job.ctid = found.ctid
    and job.token = found.token and job.runner_id = $1 and job.state = 'running'
  returning job.id, job.token, found.was_started_at, found.was_attempt, found.release,
    found.recorded, found.code, found.problem, found.fuel, found.wall_us,
    found.peak_memory_bytes, found.host_calls
), recorded as (
  insert into stokehold.job_attempts (job_id, token, runner_id, started_at, release, attempt, outcome,
    problem, fuel, wall_us, peak_memory_bytes, host_calls)
  select id, token, $1, coalesce(was_started_at, clock_timestamp()), release, was_attempt, code,
    problem::jsonb, fuel, wall_us, peak_memory_bytes, host_calls
  from released where recorded
)
select id, token from released
