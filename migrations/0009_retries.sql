-- Jobs that have ended are run again: as a new job that is linked to the old one, whose record stays as it is.
-- And a job may be pinned to a release.
-- Safe beside nodes of the version before, which run the active release of a pinned job all the same.
-- Locks: ACCESS EXCLUSIVE on jobs for a new column, short; SHARE on each day of history while an index of what
-- did not complete is made, which reads the day once.

-- Which job is a new try of which. Each ended job is retried once: its new job can be, when it has ended.
create table stokehold.retries (
  of_job bigint primary key,
  job_id bigint not null,
  retried_at timestamptz not null default clock_timestamp()
);
create index retries_by_job on stokehold.retries (job_id);

-- The release that every attempt runs; null: the one that is active at its claim.
alter table stokehold.jobs add column pinned_release int;

-- What did not complete, dead letters among it: little beside what did.
create index job_history_failed on stokehold.job_history (id) where state <> 'completed';

-- As before, and the release that it is pinned to.
create or replace view stokehold.live_jobs as
select job.id, job.kind_id,
  case when claim.token is not null then 'running' else job.state end as state,
  job.priority, job.position, job.run_at, job.enqueued_at, claim.claimed_at as started_at,
  claim.runner_id, coalesce(claim.token, job.token) as token,
  -- This try while it runs; the tries that counted while it waits.
  (job.attempt + case when claim.token is not null then 1 else 0 end)::smallint as attempt,
  job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata, job.last_problem,
  job.pinned_release
from stokehold.jobs job
left join lateral (
  select token, runner_id, claimed_at from stokehold.claims
  where job.state = 'available'
    and not exists (select from stokehold.ready
      where kind_id = job.kind_id and priority = job.priority and position = job.position)
    and job.id = any(job_ids) and token > job.token
  limit 1
) claim on true;

-- Enqueues an ended job anew: same kind, priority, attempts and metadata, and the same payload unless another
-- is given. Answers `retried` and the new job; `before` and the job that it was retried as; `was-completed`,
-- unless even those are wanted; `live`, `no-release` or `unknown`.
-- A job only ever goes from jobs to history, so the looks are in that order. Two retries of one job meet in
-- the key of retries, and the second sees what the first came to.
create function stokehold.retry_job(
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
  select made.id into new_job from enqueue_many(
    array[(select name::text from kinds where id = old.kind_id)],
    array[coalesce(retry_job.payload, old.payload)],
    array[coalesce(case when retry_job.payload is null then old.media_type else retry_job.media_type end,
      'application/json')],
    array[retry_job.run_at], array[old.priority::int], array[old.max_attempts::int], array[old.metadata]
  ) as made(id);
  update retries set job_id = new_job where of_job = old.id;
  if retry_job.pinned_release is not null then
    update jobs set pinned_release = retry_job.pinned_release where id = new_job;
  end if;
  answer := 'retried';
end
$$;

-- The contract: runs an ended job again in the caller's transaction and returns the new job's id.
create function stokehold.retry(
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
-- As cancelling: a right of its own.
revoke execute on function stokehold.retry from public;
