-- Schedules: jobs made at the times of a cron expression. Each firing is one row of `schedule_fires`, written in
-- the transaction that makes its job: whoever writes it has fired, and nobody else can.
-- Safe beside nodes of the version before, which fire nothing and leave it to the others.
-- Locks: SHARE ROW EXCLUSIVE on kinds for the foreign key, short; all else is new.

create table stokehold.schedules (
  id int generated always as identity primary key,
  name stokehold.name not null unique,
  kind_id int not null references stokehold.kinds,
  -- As the binary reads it, five or six fields.
  cron text not null check (octet_length(cron) between 1 and 255),
  timezone text not null check (octet_length(timezone) between 1 and 64),
  -- What each job gets; a null number: as the kind has it.
  -- Up to a thousand fires make their jobs in one transaction.
  payload bytea not null check (octet_length(payload) <= 65536),
  media_type text not null,
  priority smallint check (priority between -1000 and 1000),
  max_attempts smallint check (max_attempts between 1 and 1000),
  metadata jsonb check (jsonb_typeof(metadata) = 'object'),
  -- Of fires that come late: run none, the latest, all.
  misfire text not null default 'once' check (misfire in ('skip', 'once', 'all')),
  -- Later than this nothing runs; at most a week.
  misfire_window_s int not null default 3600 check (misfire_window_s between 0 and 604800),
  -- While the job of an earlier fire has not ended.
  overlap text not null default 'allow' check (overlap in ('allow', 'skip')),
  paused_at timestamptz,
  -- The first time that has not been fired; null when the calendar has no more.
  next_fire_at timestamptz,
  -- When a node is to look; later than the next fire after a failure.
  due_at timestamptz,
  -- Why the last try to fire failed.
  problem text check (octet_length(problem) <= 8000),
  created_at timestamptz not null default clock_timestamp(),
  constraint paused_is_not_due check (paused_at is null or due_at is null),
  constraint due_has_a_fire check (due_at is null or next_fire_at is not null)
);
-- One small read tells whether any is due.
create index schedules_due on stokehold.schedules (due_at) where due_at is not null;

-- What became of each time; kept 14 days, as history is.
create table stokehold.schedule_fires (
  schedule_id int not null references stokehold.schedules on delete cascade,
  fire_at timestamptz not null,
  cause text not null default 'cron' check (cause in ('cron', 'backfill', 'asked')),
  job_id bigint,
  -- Why there is no job: too late, or the one before had not ended.
  skipped text check (skipped in ('missed', 'overlap')),
  made_at timestamptz not null default clock_timestamp(),
  primary key (schedule_id, fire_at),
  constraint a_job_or_a_reason check ((job_id is null) <> (skipped is null))
);
create index schedule_fires_by_age on stokehold.schedule_fires (made_at);
create index schedule_jobs on stokehold.schedule_fires (schedule_id, fire_at desc) where job_id is not null;

-- Makes the jobs of these times and the rows that say so; of times that have a row, nothing. `skips` has a reason
-- where there is to be no job. One transaction, the caller's, which holds the schedule's row.
create function stokehold.fire_schedule(
  schedule int, fire_ats timestamptz[], skips text[], cause text
) returns table (fire_at timestamptz, job_id bigint)
language plpgsql
set search_path = stokehold, pg_temp
as $$
#variable_conflict use_column
declare
  s record;
  wanted timestamptz[];
  jobs bigint[];
begin
  select schedules.*, kinds.name as kind into strict s
    from schedules join kinds on kinds.id = kind_id where schedules.id = fire_schedule.schedule;
  insert into schedule_fires (schedule_id, fire_at, cause, skipped)
    select s.id, f.at, fire_schedule.cause, f.skip
    from unnest(fire_schedule.fire_ats, fire_schedule.skips) as f(at, skip) where f.skip is not null
    on conflict do nothing;
  select array_agg(f.at order by f.at) into wanted
    from unnest(fire_schedule.fire_ats, fire_schedule.skips) as f(at, skip)
    where f.skip is null
      and not exists (select from schedule_fires old where old.schedule_id = s.id and old.fire_at = f.at);
  if wanted is null then
    return;
  end if;
  select array_agg(made.id order by made.n) into jobs
    from enqueue_many(
      array_fill(s.kind::text, array[cardinality(wanted)]),
      array_fill(s.payload, array[cardinality(wanted)]),
      array_fill(s.media_type, array[cardinality(wanted)]),
      null,
      array_fill(s.priority::int, array[cardinality(wanted)]),
      array_fill(s.max_attempts::int, array[cardinality(wanted)]),
      (select array_agg(coalesce(s.metadata, '{}') || jsonb_build_object('schedule', s.name, 'fire_at',
          to_char(w.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) order by w.at)
        from unnest(wanted) as w(at))
    ) with ordinality as made(id, answer, n);
  -- The key refuses a second fire of a time, and its job with it.
  return query
    insert into schedule_fires as fired (schedule_id, fire_at, cause, job_id)
    select s.id, made.at, fire_schedule.cause, made.job
    from unnest(wanted, jobs) as made(at, job)
    returning fired.fire_at, fired.job_id;
end
$$;
