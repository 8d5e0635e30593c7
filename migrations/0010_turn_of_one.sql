-- A turn with a single outcome, or for a single job of one lane, goes by plain statements: of what the server
-- does for such a turn, a third was starting the plans of the statements that take many.
-- Locks: none that matter, a function is replaced by one that takes and gives the same.

-- As before, and: where there is one of a thing it is looked up by itself, with the same guards. Nothing is
-- claimed of a kind that is paused, and a job that is pinned to a release runs that.
create or replace function stokehold.turn(
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
declare
  held_since timestamptz;
  job stokehold.jobs;
  taken record;
  made bigint;
begin
  if cardinality($2) = 1 then
    select claimed_at into held_since from stokehold.claims
      where runner_id = $1 and number = $4[1] and token = $3[1];
    if found then
      delete from stokehold.jobs
        where id = $2[1] and token < $3[1] and state = 'available'
        returning * into job;
      if found then
        insert into stokehold.job_history (
          id, token, runner_id, run_at, enqueued_at, started_at, kind_id, release, state, priority, attempt,
          max_attempts, snoozes, lost, outcome, media_type, payload, metadata, result, result_media_type,
          problem, fuel, wall_us, peak_memory_bytes, host_calls)
        values (job.id, $3[1], $1, job.run_at, job.enqueued_at, held_since, job.kind_id, $5[1],
          $6[1]::stokehold.job_state, job.priority, job.attempt + 1, job.max_attempts, job.snoozes, job.lost,
          $7[1], job.media_type, job.payload, job.metadata, $8[1], $9[1], $10[1]::jsonb, $11[1], $12[1],
          $13[1], $14[1]);
        settled_id := job.id;
        settled_token := $3[1];
        return next;
      end if;
    end if;
  elsif cardinality($2) > 1 then
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
  end if;

  if cardinality($16) = 1 and $19[1] = 1 then
    select ready.job_id, ready.position, ready.ctid as place, kind.active_release as release into taken
      from stokehold.runners runner, stokehold.kinds kind, stokehold.ready
      where runner.id = $1 and runner.state = 'live' and runner.lease_expires_at > clock_timestamp()
        and kind.id = $16[1] and kind.active_release is not null
        and ($21::text[] is null or kind.queue = any($21))
        and (kind.paused_until is null or kind.paused_until <= clock_timestamp())
        and ready.kind_id = $16[1] and ready.priority = $17[1] and ready.position > $18[1]
      order by ready.position
      limit 1
      for update of ready skip locked;
    if found then
      delete from stokehold.ready where ctid = taken.place;
      -- The token is drawn after the look: see ClaimToken.
      insert into stokehold.claims (runner_id, number, job_ids) values ($1, $15, array[taken.job_id])
        returning token into made;
    end if;
    if $20 <> '{}' then
      delete from stokehold.claims where runner_id = $1 and number = any($20);
    end if;
    return query
    select null::bigint, null::bigint, job.id, job.kind_id, job.priority, taken.position, made,
      job.attempt + 1, job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata,
      job.last_problem, job.enqueued_at, job.run_at,
      coalesce(job.pinned_release, taken.release)
    from stokehold.jobs job where job.id = taken.job_id;
    return;
  end if;

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
        and (paused_until is null or paused_until <= clock_timestamp())
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
    coalesce(job.pinned_release, picked.release)
  from picked
  cross join lateral (select * from stokehold.jobs where id = picked.job_id limit 1) job;
end
$$;
