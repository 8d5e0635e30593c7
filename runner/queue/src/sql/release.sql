-- Gives jobs back to the queue after an attempt that did not end them: retried, snoozed or handed back.
-- $1 runner; the rest are arrays with one element for each job.
-- Index: jobs_pkey; for the form of the guard see finish.sql. Locks: the rows themselves, in order of
-- id as the caller sorted them.
with outcome as (
  select *
  from unnest((select $2::bigint[]), (select $3::bigint[]), (select $4::int[]), (select $5::text[]), (select $6::bigint[]), (select $7::boolean[]),
      (select $8::boolean[]), (select $9::text[]), (select $10::text[]), (select $11::bigint[]), (select $12::bigint[]), (select $13::bigint[]), (select $14::bigint[]))
    as o(job_id, token, release, next_state, delay_ms, counted, recorded, code, problem,
      fuel, wall_us, peak_memory_bytes, host_calls)
), released as (
  update stokehold.jobs job
  set state = outcome.next_state::stokehold.job_state,
    runner_id = null,
    started_at = null,
    position = case when outcome.next_state = 'available' then nextval('stokehold.positions') end,
    run_at = case when outcome.next_state = 'available' then job.run_at
      else clock_timestamp() + outcome.delay_ms * interval '1 millisecond' end,
    attempt = job.attempt - case when outcome.counted then 0 else 1 end,
    snoozes = job.snoozes + case when outcome.next_state = 'scheduled' then 1 else 0 end,
    last_problem = coalesce(outcome.problem::jsonb, job.last_problem)
  -- The row as it was, for what the update takes away.
  from outcome join stokehold.jobs before on before.id = outcome.job_id
  where job.id = outcome.job_id and job.token = outcome.token
    and job.runner_id is not distinct from $1 and job.state::text = 'running'
  returning job.id, job.token, before.started_at, before.attempt, outcome.release, outcome.recorded,
    outcome.code, outcome.problem, outcome.fuel, outcome.wall_us, outcome.peak_memory_bytes,
    outcome.host_calls
), recorded as (
  insert into stokehold.job_attempts (job_id, token, runner_id, started_at, release, attempt, outcome,
    problem, fuel, wall_us, peak_memory_bytes, host_calls)
  select id, token, $1, coalesce(started_at, clock_timestamp()), release, attempt, code,
    problem::jsonb, fuel, wall_us, peak_memory_bytes, host_calls
  from released where recorded
)
select array[id, token] as "claim!: Claim" from released
