-- Jobs that wait can be changed: when they run, how urgently, with what.
-- Locks: none that matter, a function is made.

-- Changes a waiting job; null leaves a thing as it is. A time that is past makes the job available. Answers
-- `edited`; `runs`; `no-release`; `was-` and the state that it had ended in; or `unknown`.
-- An available job whose ready row is gone has been claimed. One that stays in its lane keeps its place there.
-- One that moves draws a new position, as whatever becomes available does: behind a position that a node has
-- found to be empty nothing may appear (see lanes).
-- Indexes: jobs_pkey, ready_lanes, job_history_by_id. Locks: the rows of job and ready.
create function stokehold.edit_job(
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
  if old.state = 'available' and (becomes <> 'available' or lane <> old.priority) then
    delete from ready where kind_id = old.kind_id and priority = old.priority and position = old.position;
    old.position := null;
  end if;
  if becomes = 'available' and old.position is null then
    insert into lanes (kind_id, priority) select old.kind_id, lane
      where not exists (select from lanes l where l.kind_id = old.kind_id and l.priority = lane);
    old.position := nextval('positions');
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
