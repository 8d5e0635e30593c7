-- Options and limits, followed by whatever ends jobs, claims them, or changes them while they wait.
-- Safe beside nodes of the version before: they call `turn`, which stays.
-- Locks: none that matter, functions are made, and replaced by such as take and give the same.

-- As `turn`, which runners of the version before call and which goes with the next: the record keeps the options, and a
-- claim tells them, and whether the job came too late; permits come back with the outcomes, and nothing is claimed of
-- kinds that have limits. Outcomes are written in the order in which they are given, which is that of their jobs.
create function stokehold.take_turn(
  runner bigint,
  bigint[], bigint[], bigint[], int[], text[], text[], bytea[], text[], text[], bigint[], bigint[],
  bigint[], bigint[],
  number bigint, kinds int[], priorities smallint[], after_positions bigint[], quotas int[],
  answered bigint[], queues text[]
) returns table (
  settled_id bigint, settled_token bigint,
  id bigint, kind_id int, priority smallint, "position" bigint, token bigint, attempt int,
  max_attempts smallint, snoozes smallint, lost smallint, media_type text, payload bytea,
  metadata jsonb, last_problem jsonb, enqueued_at timestamptz, run_at timestamptz, release int,
  options jsonb, expired boolean
)
language plpgsql
as $$
#variable_conflict use_column
declare
  held record;
  job stokehold.jobs;
  taken record;
  made bigint;
begin
  if cardinality($2) = 1 then
    select claimed_at, permits_of into held from stokehold.claims
      where runner_id = $1 and number = $4[1] and token = $3[1];
    if found then
      delete from stokehold.jobs
        where id = $2[1] and token < $3[1] and state = 'available'
        returning * into job;
      if found then
        insert into stokehold.job_history (
          id, token, runner_id, run_at, enqueued_at, started_at, kind_id, release, state, priority, attempt,
          max_attempts, snoozes, lost, outcome, media_type, payload, metadata, result, result_media_type,
          problem, fuel, wall_us, peak_memory_bytes, host_calls, options)
        values (job.id, $3[1], $1, job.run_at, job.enqueued_at, held.claimed_at, job.kind_id, $5[1],
          $6[1]::stokehold.job_state, job.priority, job.attempt + 1, job.max_attempts, job.snoozes, job.lost,
          $7[1], job.media_type, job.payload, job.metadata, $8[1], $9[1], $10[1]::jsonb, $11[1], $12[1],
          $13[1], $14[1], job.options);
        if job.kind_id = any(held.permits_of) then
          insert into stokehold.freed_permits (kind_id, key, running, held)
            values (job.kind_id, job.concurrency_key, 1, 1);
        end if;
        settled_id := job.id;
        settled_token := $3[1];
        return next;
      end if;
    end if;
  elsif cardinality($2) > 1 then
    return query
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
    select id, token, null::bigint, null::int, null::smallint, null::bigint, null::bigint, null::int,
      null::smallint, null::smallint, null::smallint, null::text, null::bytea, null::jsonb, null::jsonb,
      null::timestamptz, null::timestamptz, null::int, null::jsonb, null::boolean
    from written;
  end if;

  if cardinality($16) = 1 and $19[1] = 1 then
    select ready.job_id, ready.position, ready.ctid as place, kind.active_release as release into taken
      from stokehold.runners runner, stokehold.kinds kind, stokehold.ready
      where runner.id = $1 and runner.state = 'live' and runner.lease_expires_at > clock_timestamp()
        and kind.id = $16[1] and kind.active_release is not null
        and ($21::text[] is null or kind.queue = any($21))
        and not kind.limited
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
      coalesce(job.pinned_release, taken.release), job.options,
      coalesce(job.expires_at <= clock_timestamp(), false)
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
        and not limited
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
    coalesce(job.pinned_release, picked.release), job.options,
    coalesce(job.expires_at <= clock_timestamp(), false)
  from picked
  cross join lateral (select * from stokehold.jobs where id = picked.job_id limit 1) job;
end
$$;

-- As before, and: nothing is claimed of kinds that have limits.
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
      cross join lateral (
        select claimed_at from held where number = outcome.claim and token = outcome.token limit 1) held
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
        and not kind.limited
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
        and not limited
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

-- As before, and: the record keeps the options; one that waits for its key is taken out of that, and one that holds it
-- gives it back.
create or replace function stokehold.cancel_job(job bigint, problem jsonb) returns text
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  perform from jobs where id = cancel_job.job for update;
  if found then
    with waiting as (
      delete from ready
      using jobs job
      where job.id = cancel_job.job and job.state = 'available'
        and ready.kind_id = job.kind_id and ready.priority = job.priority
        and ready.position = job.position
      returning ready.job_id
    ), ended as (
      delete from jobs
      where id = cancel_job.job and (state <> 'available' or exists (select from waiting))
      returning *
    ), not_parked as (
      delete from parked
      using ended
      where ended.state = 'pending' and parked.kind_id = ended.kind_id and parked.key = ended.concurrency_key
        and parked.priority = ended.priority and parked.position = ended.position
    ), freed as (
      insert into freed_permits (kind_id, key, running, held)
      select kind_id, concurrency_key, 0, 1 from ended where holds_key
    )
    insert into job_history (
      id, token, run_at, enqueued_at, kind_id, state, priority, attempt, max_attempts, snoozes, lost,
      outcome, media_type, payload, metadata, options, problem)
    select id, token, run_at, enqueued_at, kind_id, 'cancelled', priority, attempt, max_attempts, snoozes,
      lost, 'cancelled', media_type, payload, metadata, options, cancel_job.problem
    from ended;
    if found then
      return 'cancelled';
    end if;
    insert into cancels (job_id, problem) values (cancel_job.job, cancel_job.problem)
      on conflict do nothing;
    if found then
      perform pg_notify('stokehold_wake', 'cancel');
    end if;
    return 'requested';
  end if;
  return coalesce(
    (select 'was-' || state::text from job_history where id = cancel_job.job order by token desc limit 1),
    'unknown');
end
$$;

-- Ends jobs that wait and may not start any more. Answers how many.
-- Indexes: jobs_expiring, ready_lanes. Locks: the rows of ready and of jobs, skipping those of others: a claim
-- that takes one now decides for itself.
create function stokehold.end_expired(most int) returns int
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  done int;
begin
  with late as materialized (
    select job.id, job.state, ready.ctid as place
    from jobs job
    left join lateral (
      select ctid from ready
      where kind_id = job.kind_id and priority = job.priority and position = job.position and job_id = job.id
      limit 1 for update skip locked
    ) ready on job.state = 'available'
    where job.expires_at <= clock_timestamp() and (job.state <> 'available' or ready.ctid is not null)
    order by job.expires_at
    limit most
    for update of job skip locked
  ), taken as (
    delete from ready where ctid = any(array(select place from late)) returning job_id
  ), ended as (
    delete from jobs
    where id = any(array(select id from late where state <> 'available' union all select job_id from taken))
    returning *
  ), not_parked as (
    delete from parked
    using ended
    where ended.state = 'pending' and parked.kind_id = ended.kind_id and parked.key = ended.concurrency_key
      and parked.priority = ended.priority and parked.position = ended.position
  ), freed as (
    insert into freed_permits (kind_id, key, running, held)
    select kind_id, concurrency_key, 0, 1 from ended where holds_key
  )
  insert into job_history (
    id, token, run_at, enqueued_at, kind_id, state, priority, attempt, max_attempts, snoozes, lost,
    outcome, media_type, payload, metadata, options, problem)
  select id, token, run_at, enqueued_at, kind_id, 'discarded', priority, attempt, max_attempts, snoozes, lost,
    'expired', media_type, payload, metadata, options,
    jsonb_build_object('message', 'the job was not started before it expired at ' || to_json(expires_at),
      'advice', 'Retry it if it is still wanted: the new job does not expire.')
  from ended;
  get diagnostics done = row_count;
  return done;
end
$$;

-- As before, and: one that waits for its key can be changed too, and no claim that began before runs the job as it was.
create or replace function stokehold.edit_job(
  job bigint, run_at timestamptz, priority int, max_attempts int, payload bytea, media_type text,
  metadata jsonb, pinned_release int
) returns text
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  old jobs;
  lane smallint;
  becomes job_state;
begin
  select * into old from jobs where id = edit_job.job for update;
  if not found then
    return coalesce(
      (select 'was-' || state::text from job_history where id = edit_job.job order by token desc limit 1),
      'unknown');
  end if;
  if old.state = 'available' then
    perform from ready
      where kind_id = old.kind_id and priority = old.priority and position = old.position for update;
    if not found then
      return 'runs';
    end if;
  end if;
  if edit_job.pinned_release is not null and not exists (select from releases
      where kind_id = old.kind_id and number = edit_job.pinned_release) then
    return 'no-release';
  end if;
  perform refuse_wrong_jobs(
    array[(select name::text from kinds where id = old.kind_id)], array[coalesce(edit_job.payload, old.payload)],
    array[edit_job.media_type], array[edit_job.run_at], array[edit_job.priority],
    array[edit_job.max_attempts], array[edit_job.metadata]);
  if edit_job.max_attempts <= old.attempt then
    raise exception 'job 1: max_attempts is %, and % tries are over', edit_job.max_attempts, old.attempt
      using errcode = 'SH422', hint = 'Cancel the job if it is not to be tried again.';
  end if;

  lane := coalesce(edit_job.priority, old.priority);
  becomes := case
    when edit_job.run_at is null then old.state
    when edit_job.run_at <= clock_timestamp() then 'available'
    when old.state = 'retryable' then 'retryable'
    else 'scheduled' end;
  if old.state = 'pending' then
    -- One that moves, in time or to another lane, asks for its key again when its turn comes.
    if edit_job.run_at is null and lane = old.priority then
      becomes := 'pending';
    else
      delete from parked where kind_id = old.kind_id and key = old.concurrency_key
        and priority = old.priority and position = old.position;
      becomes := case when edit_job.run_at > clock_timestamp() then 'scheduled' else 'available' end;
      old.position := null;
    end if;
  end if;
  -- Made anew even in the same place: a claim reads the job as it was when the claim began, and locks its ready row
  -- later. The row that it knows is gone then, and it passes by.
  if old.state = 'available' then
    delete from ready where kind_id = old.kind_id and priority = old.priority and position = old.position;
    if becomes <> 'available' or lane <> old.priority then
      old.position := null;
    end if;
  end if;
  if becomes = 'available' then
    if old.position is null then
      insert into lanes (kind_id, priority) select old.kind_id, lane
        where not exists (select from lanes l where l.kind_id = old.kind_id and l.priority = lane);
      old.position := nextval('positions');
    end if;
    insert into ready (kind_id, priority, position, job_id) values (old.kind_id, lane, old.position, old.id);
  end if;
  update jobs set
    state = becomes, position = old.position, priority = lane,
    run_at = coalesce(greatest(edit_job.run_at, case when edit_job.run_at is not null then old.enqueued_at end),
      old.run_at),
    max_attempts = coalesce(edit_job.max_attempts, old.max_attempts),
    payload = coalesce(edit_job.payload, old.payload),
    media_type = case when edit_job.payload is null then old.media_type
      else nullif(edit_job.media_type, 'application/json') end,
    metadata = coalesce(edit_job.metadata, old.metadata),
    pinned_release = coalesce(edit_job.pinned_release, old.pinned_release)
    where id = old.id;
  if exists (select from sleepers) then
    perform pg_notify('stokehold_wake',
      case when becomes = 'available' then old.kind_id || ':' || lane else '' end);
  end if;
  return 'edited';
end
$$;
