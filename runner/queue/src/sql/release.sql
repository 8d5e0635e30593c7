-- Gives jobs back to the queue after an attempt that did not end them: retried, snoozed or handed back.
-- $1 runner; the rest are arrays with one element for each job.
-- Indexes: claims_pkey and jobs_pkey, and then by place; for the form and the guard see finish.sql.
-- Locks: the rows themselves, in order of id as the caller sorted them.
with held as materialized (
  select number, token, claimed_at, permits_of from stokehold.claims
  where runner_id = $1 and number = any($4::bigint[])
), found as materialized (
  -- The row as it was, for what the update takes away.
  select outcome.*, held.claimed_at, job.ctid, job.attempt + 1 as this_attempt,
    job.kind_id = any(held.permits_of) as is_limited,
    -- For the order's sake it keeps its key.
    case when job.kind_id = any(held.permits_of) and job.concurrency_key is not null
      then (select nullif(keeps_order, false) from stokehold.kinds where id = job.kind_id) end as keeps_key
  from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::text[], $7::bigint[],
      $8::boolean[], $9::boolean[], $10::text[], $11::text[], $12::bigint[], $13::bigint[],
      $14::bigint[], $15::bigint[])
    as outcome(job_id, token, claim, release, next_state, delay_ms, counted, recorded, code, problem,
      fuel, wall_us, peak_memory_bytes, host_calls)
  cross join lateral (
    select claimed_at, permits_of from held where number = outcome.claim and token = outcome.token limit 1) held
  cross join lateral (
    select ctid, attempt, kind_id, concurrency_key from stokehold.jobs where id = outcome.job_id limit 1) job
), released as (
  update stokehold.jobs job
  set state = found.next_state::stokehold.job_state,
    token = found.token,
    position = case when found.next_state = 'available' then nextval('stokehold.positions') end,
    run_at = case when found.next_state = 'available' then job.run_at
      else clock_timestamp() + found.delay_ms * interval '1 millisecond' end,
    attempt = job.attempt + case when found.counted then 1 else 0 end,
    snoozes = job.snoozes + case when found.next_state = 'scheduled' then 1 else 0 end,
    last_problem = coalesce(found.problem::jsonb, job.last_problem),
    holds_key = found.keeps_key
  from found
  where job.ctid = found.ctid and job.token < found.token and job.state = 'available'
  returning job.id, job.kind_id, job.priority, job.position, job.token, found.claimed_at,
    found.this_attempt, found.release, found.recorded, found.code, found.problem, found.fuel,
    found.wall_us, found.peak_memory_bytes, found.host_calls, found.is_limited, job.concurrency_key,
    job.holds_key
), freed as (
  insert into stokehold.freed_permits (kind_id, key, running, held)
  select kind_id, concurrency_key, count(*), count(*) filter (where holds_key is null)
  from released where is_limited group by kind_id, concurrency_key
), queued as (
  insert into stokehold.ready (kind_id, priority, position, job_id)
  select kind_id, priority, position, id from released where position is not null
), recorded as (
  insert into stokehold.job_attempts (job_id, token, runner_id, started_at, release, attempt, outcome,
    problem, fuel, wall_us, peak_memory_bytes, host_calls)
  select id, token, $1, claimed_at, release, this_attempt, code, problem::jsonb, fuel, wall_us,
    peak_memory_bytes, host_calls
  from released where recorded
)
select id, token from released
