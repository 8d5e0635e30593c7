-- A runner's turn in one round trip and one commit: what its attempts came to is written, and then what
-- there is room for is claimed. Two statements, in this order: as one, two runners could wait for each
-- other. The statements are those of finish.sql and claim.sql in the queue crate, where they are
-- explained; a test compares them.
-- Locks: none that matter, a function is made.

-- $1 runner; $2..$14 outcomes as finish.sql has them; $15..$21 the claim as claim.sql has it.
-- Rows with settled_id are outcomes that took effect, the others are jobs that were claimed.
create function stokehold.turn(
  runner bigint,
  bigint[], bigint[], bigint[], int[], text[], text[], bytea[], text[], text[], bigint[], bigint[],
  bigint[], bigint[],
  number bigint, kinds int[], priorities smallint[], after_positions bigint[], quotas int[],
  answered bigint[], queues text[]
) returns table (
  settled_id bigint, settled_token bigint,
  id bigint, kind_id int, priority smallint, "position" bigint, token bigint, attempt int,
  max_attempts smallint, snoozes smallint, lost smallint, media_type text, payload bytea,
  metadata jsonb, last_problem jsonb, enqueued_at timestamptz, run_at timestamptz, release int
)
language plpgsql
as $$
#variable_conflict use_column
begin
  return query
  with held as materialized (
    select number, token, claimed_at from stokehold.claims
    where runner_id = $1 and number = any($4::bigint[])
  ), found as materialized (
    select outcome.*, held.claimed_at, job.ctid
    from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::text[], $7::text[], $8::bytea[],
        $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
      as outcome(job_id, token, claim, release, next_state, code, result, result_media_type,
        problem, fuel, wall_us, peak_memory_bytes, host_calls)
    join held on held.number = outcome.claim and held.token = outcome.token
    cross join lateral (select ctid from stokehold.jobs where id = outcome.job_id limit 1) job
  ), ended as (
    delete from stokehold.jobs job
    using found
    where job.ctid = found.ctid and job.token < found.token and job.state = 'available'
    returning job.id, job.run_at, job.enqueued_at, job.kind_id, job.priority, job.attempt,
      job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata,
      found.token, found.claimed_at, found.release, found.next_state, found.code, found.result,
      found.result_media_type, found.problem, found.fuel, found.wall_us, found.peak_memory_bytes,
      found.host_calls
  ), written as (
    insert into stokehold.job_history (
      id, token, runner_id, run_at, enqueued_at, started_at, kind_id, release, state, priority, attempt,
      max_attempts, snoozes, lost, outcome, media_type, payload, metadata, result, result_media_type,
      problem, fuel, wall_us, peak_memory_bytes, host_calls)
    select id, token, $1, run_at, enqueued_at, claimed_at, kind_id, release,
      next_state::stokehold.job_state, priority, attempt + 1, max_attempts, snoozes, lost, code, media_type,
      payload, metadata, result, result_media_type, problem::jsonb, fuel, wall_us, peak_memory_bytes,
      host_calls
    from ended
    returning id, token
  )
  select id, token, null::bigint, null::int, null::smallint, null::bigint, null::bigint, null::int,
    null::smallint, null::smallint, null::smallint, null::text, null::bytea, null::jsonb, null::jsonb,
    null::timestamptz, null::timestamptz, null::int
  from written;

  return query
  with picked as materialized (
    select ready.job_id, ready.position, ready.place, kind.release
    from stokehold.runners runner
    cross join unnest($16::int[], $17::smallint[], $18::bigint[], $19::int[])
      with ordinality as lane(kind_id, priority, after_position, quota, n)
    cross join lateral (
      select active_release as release
      from stokehold.kinds
      where id = lane.kind_id and active_release is not null and ($21::text[] is null or queue = any($21))
      limit 1
    ) kind
    cross join lateral (
      select job_id, position, ctid as place
      from stokehold.ready
      where kind_id = lane.kind_id
        and priority = lane.priority
        and position > lane.after_position
      order by position
      limit lane.quota
      for update skip locked
    ) ready
    where runner.id = $1 and runner.state = 'live' and runner.lease_expires_at > clock_timestamp()
  ), taken as (
    delete from stokehold.ready where ctid = any(array(select place from picked))
  ), claimed as (
    -- The token is drawn after the look: see ClaimToken.
    insert into stokehold.claims (runner_id, number, job_ids)
    select $1, $15, ids from (select array(select job_id from picked)) as picked(ids) where ids <> '{}'
    returning token
  ), answered as (
    delete from stokehold.claims where runner_id = $1 and number = any($20::bigint[])
  )
  select null::bigint, null::bigint, job.id, job.kind_id, job.priority, picked.position,
    (select token from claimed), job.attempt + 1, job.max_attempts, job.snoozes, job.lost,
    job.media_type, job.payload, job.metadata, job.last_problem, job.enqueued_at, job.run_at,
    picked.release
  from picked
  cross join lateral (select * from stokehold.jobs where id = picked.job_id limit 1) job;
end
$$;
