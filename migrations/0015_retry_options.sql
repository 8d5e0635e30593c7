-- Keys that nobody holds are swept, and a retried job has the options of the old one.
-- Safe beside nodes of the version before, which do neither.
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
