-- Cancelling reaches jobs that run: a request is left for the node that runs the job, and stands until the
-- job has ended. And cancelling is part of the SQL contract.
-- Safe beside nodes of the version before, which leave such requests alone.
-- Locks: none that matter, new objects are made.

-- Jobs that run and are to be cancelled; few, and gone soon. A row leaves when its job has ended, however
-- it did.
create table stokehold.cancels (
  job_id bigint primary key,
  -- What the job's record will say.
  problem jsonb not null,
  requested_at timestamptz not null default clock_timestamp()
) with (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- Cancels the job if it waits: it leaves the live table and becomes history. If it runs, leaves a request
-- and tells the nodes. Answers `cancelled`, `requested`, `was-` and the state that it had ended in before, or
-- `unknown`.
-- First the lock, then looks that begin after it and see the row as it has become. An available job whose
-- ready row is gone has been claimed.
-- Indexes: jobs_pkey, ready_lanes, job_history_by_id. Locks: the rows of job and ready.
-- With the caller's rights on the tables, which those of runners and API have.
create function stokehold.cancel_job(job bigint, problem jsonb) returns text
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
      outcome, media_type, payload, metadata, problem)
    select id, token, run_at, enqueued_at, kind_id, 'cancelled', priority, attempt, max_attempts, snoozes,
      lost, 'cancelled', media_type, payload, metadata, cancel_job.problem
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

-- The contract: cancels one job in the caller's transaction, and answers as above.
create function stokehold.cancel(job bigint, reason text default 'cancelled on request') returns text
language sql security definer
set search_path = stokehold, pg_temp
as $$
  select cancel_job(cancel.job, jsonb_build_object('message', left(coalesce(cancel.reason, ''), 2000)))
$$;

-- Whoever may enqueue may not therefore cancel: this is granted by itself.
revoke execute on function stokehold.cancel from public;

-- Follows requests whose job does not run (any more): cancels it if it waits to be tried again, and
-- forgets the request if it has ended. Answers how many were cancelled.
-- Locks: the requests, skipping those that another node follows, and the jobs, in order of id as all do.
create function stokehold.follow_cancels(most int) returns int
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  request record;
  answer text;
  cancelled int := 0;
begin
  for request in
    select asked.job_id, asked.problem
    from stokehold.cancels asked
    left join stokehold.jobs job on job.id = asked.job_id
    where job.id is null or job.state <> 'available'
      or exists (select from stokehold.ready
        where kind_id = job.kind_id and priority = job.priority and position = job.position)
    order by asked.job_id
    limit follow_cancels.most
    for update of asked skip locked
  loop
    answer := stokehold.cancel_job(request.job_id, request.problem);
    cancelled := cancelled + (answer = 'cancelled')::int;
    -- Claimed meanwhile: it stands.
    if answer <> 'requested' then
      delete from stokehold.cancels where job_id = request.job_id;
    end if;
  end loop;
  return cancelled;
end
$$;
