-- The record of an ended job keeps its options, and jobs that came too late are ended.
-- Safe beside nodes of the version before: they call `turn`, which stays.
-- Locks: none that matter, functions are made.

-- Takes away keys that no job holds any more and requests that are over a week old. Looks at `most` keys behind
-- the given one and answers the last that it looked at; null when there are no more.
-- Indexes: unique_keys_pkey, jobs_pkey, job_history_by_id, idempotency_keys_by_age. Locks: what it deletes,
-- skipping what others have.
create function stokehold.sweep_keys(inout kind_id int, inout key text, most int, out swept int)
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  requests int;
begin
  with old as materialized (
    select ctid from idempotency_keys where made_at < clock_timestamp() - interval '7 days'
    order by made_at limit most for update skip locked
  )
  delete from idempotency_keys where ctid = any(array(select ctid from old));
  get diagnostics requests = row_count;
  with page as materialized (
    select kind_id, key, job_id, states, held_until from unique_keys
    where (kind_id, key) > (sweep_keys.kind_id, sweep_keys.key)
    order by kind_id, key limit most
  ), free as materialized (
    select unique_keys.ctid from page
    join unique_keys using (kind_id, key)
    where (page.held_until is null or page.held_until <= clock_timestamp())
      and not exists (select from jobs where id = page.job_id)
      -- Held in a state that a job ends in: as long as there is a record of it.
      and not coalesce(page.states && '{completed,discarded,cancelled}'
        and exists (select from job_history where id = page.job_id and state = any(page.states)), false)
      and unique_keys.job_id = page.job_id
    for update of unique_keys skip locked
  ), gone as (
    delete from unique_keys where ctid = any(array(select ctid from free)) returning 1
  )
  select last.kind_id, last.key, (select count(*) from gone) + requests
    into sweep_keys.kind_id, sweep_keys.key, swept
    from (select 1) one
    left join lateral (select kind_id, key from page order by kind_id desc, key desc limit 1) last on true;
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

-- As before, and the record keeps the options.
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

-- As before, and: the new job has the options of the old one, but for the time until which that had to start and
-- the release. `held` and the job that holds its unique key, if another does: nothing is made then.
create or replace function stokehold.retry_job(
  job bigint, payload bytea, media_type text, pinned_release int, run_at timestamptz, even_completed boolean,
  out answer text, out new_job bigint
)
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  old job_history;
  wishes jsonb;
  made record;
begin
  if exists (select from jobs where id = retry_job.job) then
    answer := 'live';
    return;
  end if;
  select * into old from job_history where id = retry_job.job order by token desc limit 1;
  if not found then
    answer := 'unknown';
    return;
  end if;
  if old.state = 'completed' and not retry_job.even_completed then
    answer := 'was-completed';
    return;
  end if;
  if retry_job.pinned_release is not null and not exists (select from releases
      where kind_id = old.kind_id and number = retry_job.pinned_release) then
    answer := 'no-release';
    return;
  end if;
  insert into retries (of_job, job_id) values (old.id, 0) on conflict do nothing;
  if not found then
    answer := 'before';
    select job_id into new_job from retries where of_job = old.id;
    return;
  end if;
  wishes := old.options - 'expires_at' - 'release';
  if wishes ? 'unique' then
    -- What it may still hold, the new job is to have.
    delete from unique_keys
      where kind_id = old.kind_id and key = unique_key(old.options -> 'unique', old.payload) and job_id = old.id;
    wishes := jsonb_set(wishes, '{unique,mode}', '"existing"');
    if wishes -> 'unique' ? 'fields' and coalesce(
        case when retry_job.payload is null then old.media_type else retry_job.media_type end, 'application/json')
        !~* '^[^;]*[/+]json *(;|$)' then
      wishes := wishes - 'unique';
    end if;
  end if;
  if retry_job.pinned_release is not null then
    wishes := coalesce(wishes, '{}') || jsonb_build_object('release', retry_job.pinned_release);
  end if;
  select * into made from enqueue_many(
    array[(select name::text from kinds where id = old.kind_id)],
    array[coalesce(retry_job.payload, old.payload)],
    array[coalesce(case when retry_job.payload is null then old.media_type else retry_job.media_type end,
      'application/json')],
    array[retry_job.run_at], array[old.priority::int], array[old.max_attempts::int], array[old.metadata],
    case when wishes is not null then array[wishes] end);
  new_job := made.id;
  if made.answer <> 'inserted' then
    delete from retries where of_job = old.id;
    answer := 'held';
    return;
  end if;
  update retries set job_id = new_job where of_job = old.id;
  answer := 'retried';
end
$$;

-- As before, and says who holds its unique key.
create or replace function stokehold.retry(
  job bigint,
  payload bytea default null,
  media_type text default null,
  release int default null,
  run_at timestamptz default null,
  even_completed boolean default false
) returns bigint
language plpgsql security definer
set search_path = stokehold, pg_temp
as $$
declare
  done record;
begin
  done := retry_job(retry.job, retry.payload, retry.media_type, retry.release, retry.run_at,
    coalesce(retry.even_completed, false));
  case done.answer
    when 'retried' then
      return done.new_job;
    when 'before' then
      raise exception 'job % was retried before, as job %', retry.job, done.new_job
        using errcode = 'SH409', hint = 'Retry that one when it has ended.';
    when 'held' then
      raise exception 'job % has the unique key of job %', done.new_job, retry.job
        using errcode = 'SH409', hint = 'Wait for its end, or cancel it.';
    when 'live' then
      raise exception 'job % has not ended', retry.job using errcode = 'SH409';
    when 'was-completed' then
      raise exception 'job % is completed', retry.job
        using errcode = 'SH409', hint = 'Say even_completed => true to run it again all the same.';
    when 'no-release' then
      raise exception 'the kind of job % has no release %', retry.job, retry.release using errcode = 'SH404';
    else
      raise exception 'there is no job %', retry.job
        using errcode = 'SH404', hint = 'It may have ended and be over the age that history is kept.';
  end case;
end
$$;

-- As `turn`, which runners of the version before call and which goes with the next: the record keeps the options,
-- and a claim tells them, and whether the job came too late.
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
          problem, fuel, wall_us, peak_memory_bytes, host_calls, options)
        values (job.id, $3[1], $1, job.run_at, job.enqueued_at, held_since, job.kind_id, $5[1],
          $6[1]::stokehold.job_state, job.priority, job.attempt + 1, job.max_attempts, job.snoozes, job.lost,
          $7[1], job.media_type, job.payload, job.metadata, $8[1], $9[1], $10[1]::jsonb, $11[1], $12[1],
          $13[1], $14[1], job.options);
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
        job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata, job.options,
        found.token, found.claimed_at, found.release, found.next_state, found.code, found.result,
        found.result_media_type, found.problem, found.fuel, found.wall_us, found.peak_memory_bytes,
        found.host_calls
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
