-- Ends jobs for good: each row leaves the live table and becomes history, in one step.
-- $1 runner; the rest are arrays with one element for each job. Stands in stokehold.take_turn as well.
-- Indexes: claims_pkey, jobs_pkey. Locks: the rows themselves, in order of id as the caller sorted them.
-- The claim of each is looked up by itself, so that they stay in this order: as a join they came in that of
-- their claims, and whoever locks many jobs in order of id could wait for us while we waited for them.
-- The guard is what makes one outcome: the claim must be this runner's, and the job's own token, which
-- is that of the last claim that has ended, below the claim's. A stale write changes nothing. The guard
-- stands in the write itself, which looks at a row again that changed meanwhile.
-- The rows are found one by one through the primary key and then by their place: a join on the id left
-- the planner other ways, of which it chose a scan of everything whenever the table had been empty. Found
-- apart, so that where the settings of a session do not reach (see database.rs) the worst that it can
-- choose reads the table once: written as one join, 3,000 outcomes took over 10 s.
with held as materialized (
  select number, token, claimed_at, permits_of from stokehold.claims
  where runner_id = $1 and number = any($4::bigint[])
), found as materialized (
  select outcome.*, held.claimed_at, held.permits_of, job.ctid
  from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::text[], $7::text[], $8::bytea[],
      $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
    as outcome(job_id, token, claim, release, next_state, code, result, result_media_type,
      problem, fuel, wall_us, peak_memory_bytes, host_calls)
  cross join lateral (
    select claimed_at, permits_of from held where number = outcome.claim and token = outcome.token limit 1) held
  cross join lateral (select ctid from stokehold.jobs where id = outcome.job_id limit 1) job
), ended as (
  delete from stokehold.jobs job
  using found
  where job.ctid = found.ctid and job.token < found.token and job.state = 'available'
  returning job.id, job.run_at, job.enqueued_at, job.kind_id, job.priority, job.attempt,
    job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata, job.options,
    found.token, found.claimed_at, found.release, found.next_state, found.code, found.result,
    found.result_media_type, found.problem, found.fuel, found.wall_us, found.peak_memory_bytes,
    found.host_calls, job.concurrency_key, job.kind_id = any(found.permits_of) as is_limited
), freed as (
  insert into stokehold.freed_permits (kind_id, key, running, held)
  select kind_id, concurrency_key, count(*), count(*) from ended where is_limited group by kind_id, concurrency_key
), written as (
  insert into stokehold.job_history (
    id, token, runner_id, run_at, enqueued_at, started_at, kind_id, release, state, priority, attempt,
    max_attempts, snoozes, lost, outcome, media_type, payload, metadata, result, result_media_type,
    problem, fuel, wall_us, peak_memory_bytes, host_calls, options)
  select id, token, $1, run_at, enqueued_at, claimed_at, kind_id, release,
    next_state::stokehold.job_state, priority, attempt + 1, max_attempts, snoozes, lost, code, media_type,
    payload, metadata, result, result_media_type, problem::jsonb, fuel, wall_us, peak_memory_bytes,
    host_calls, options
  from ended
  returning id, token
)
select id, token from written
