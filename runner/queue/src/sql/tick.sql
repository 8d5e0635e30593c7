-- One look at everything that changes by itself.
-- $1 queues served, null for all; $2 most due jobs to release; $3..$5 the lanes to look into as arrays:
-- kind, priority, position at and below which nothing can be left; $6 no job is due before this time.
-- Indexes: jobs_due for what is due, ready_lanes for the first job of each lane, runners_live for
-- expired leases, claims_pkey for what dead runners hold, kinds_paused for what is paused, jobs_expiring,
-- kinds_limited, key_permits_due and freed_permits_by_kind for what limits let in, schedules_due.
-- Locks: the due rows, skipping those another node releases.
with due as materialized (
  select id
  from stokehold.jobs
  where state in ('scheduled', 'retryable') and run_at >= $6 and run_at <= (select clock_timestamp())
  order by run_at
  limit $2
  for update skip locked
), released as (
  update stokehold.jobs job
  set state = 'available', position = nextval('stokehold.positions')
  -- As an array: of a join the planner thinks that it is worth a scan of the whole table.
  where job.id = any(array(select id from due))
  returning job.id, job.kind_id, job.priority, job.position
), queued as (
  insert into stokehold.ready (kind_id, priority, position, job_id)
  select kind_id, priority, position, id from released
), first as materialized (
  select lane.kind_id, lane.priority, ready.position
  from unnest($3::int[], $4::smallint[], $5::bigint[]) as lane(kind_id, priority, cleared)
  cross join lateral (
    select position from stokehold.ready
    where kind_id = lane.kind_id and priority = lane.priority
      and position > lane.cleared
    order by position limit 1
  ) ready
), filled as (
  select lane.kind_id, lane.priority, min(lane.position) as position,
    -- Lanes that nothing may be claimed from are told too: they are not empty.
    coalesce((select active_release is not null and ($1::text[] is null or queue = any($1))
        and (paused_until is null or paused_until <= clock_timestamp())
      from stokehold.kinds where id = lane.kind_id), false) as open
  from (select kind_id, priority, position from first
    union all select distinct kind_id, priority, null::bigint from released
    -- What waits for a key that has opened.
    union all select distinct kind_id, next_priority, null::bigint from stokehold.key_permits
      where opens_at <= (select clock_timestamp())
    -- What waits for one that was given back since; from where all before was read long ago.
    union all select permits.kind_id, waiting.priority, null::bigint
      from stokehold.kind_permits permits
      cross join lateral (select from stokehold.freed_permits
        where kind_id = permits.kind_id and id > permits.freed_before limit 1) freed
      cross join lateral (select priority from stokehold.parked where kind_id = permits.kind_id limit 1) waiting) lane
  group by lane.kind_id, lane.priority
)
select
  coalesce((select array_agg(kind_id order by priority, kind_id) from filled), '{}') as "kind_ids!",
  coalesce((select array_agg(priority order by priority, kind_id) from filled), '{}') as "priorities!",
  coalesce((select array_agg(position order by priority, kind_id) from filled), '{}') as "positions!: Vec<Option<i64>>",
  coalesce((select array_agg(open order by priority, kind_id) from filled), '{}') as "open!",
  (select count(*) from released) as "released!",
  -- As the statement began: a job released just now may still be the answer, which costs one early look.
  least((select min(run_at) from stokehold.jobs
      where state in ('scheduled', 'retryable') and run_at >= $6),
    (select min(opens_at) from stokehold.key_permits where opens_at > clock_timestamp())) as next_due,
  clock_timestamp() as "now!",
  exists (select from stokehold.runners
      where state = 'live' and lease_expires_at < clock_timestamp())
    or exists (select from stokehold.runners runner
      where runner.state <> 'live'
        and exists (select from stokehold.claims claim where claim.runner_id = runner.id))
    as "dead_runners!",
  exists (select from stokehold.cancels) as "cancels!",
  exists (select from stokehold.kinds where recount_at <= clock_timestamp()) as "recount!",
  coalesce((select array_agg(id) from stokehold.kinds where limited), '{}') as "limited!",
  exists (select from stokehold.jobs where expires_at <= clock_timestamp()) as "expired!",
  (select min(due_at) from stokehold.schedules where due_at is not null) as schedule_due,
  coalesce((select array_agg(id) from stokehold.kinds where paused_until > clock_timestamp()), '{}')
    as "paused!",
  (select count(*) from stokehold.lanes) as "lanes!",
  (select kinds_version from stokehold.settings) as "kinds_version!",
  -- Of a sequence that nobody has drawn from, the last value is the first that will be drawn.
  (select last_value - case when is_called then 0 else 1 end from stokehold.positions) as "last_position!",
  -- Who may have drawn a position and not committed its job yet: whoever writes to the table of jobs,
  -- which everybody does before the one of ready jobs.
  coalesce((select array_agg(virtualtransaction) from pg_locks
    where locktype = 'relation' and relation = 'stokehold.jobs'::regclass
      and database = (select oid from pg_database where datname = current_database())
      and mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      and granted and pid is distinct from pg_backend_pid()), '{}') as "writers!"
