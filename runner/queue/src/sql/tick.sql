-- One look at everything that changes by itself.
-- $1 queues served, null for all; $2 most due jobs to release.
-- Indexes: jobs_due for what is due, jobs_lanes by skip scan for the active lanes, jobs_held for what
-- dead runners hold, runners_live for expired leases.
-- Locks: the due rows, skipping those another node releases.
with recursive due as materialized (
  select id
  from stokehold.jobs
  where state in ('scheduled', 'retryable') and run_at <= (select clock_timestamp())
  order by run_at
  limit $2
  for update skip locked
), released as (
  update stokehold.jobs job
  set state = 'available', position = nextval('stokehold.positions')
  -- As an array: of a join the planner thinks that it is worth a scan of the whole table.
  where job.id = any(array(select id from due))
  returning job.kind_id, job.priority
), lane (kind_id, priority) as (
  (select kind_id, priority from stokehold.jobs
    where state = 'available' order by kind_id, priority limit 1)
  union all
  select next.kind_id, next.priority
  from lane
  cross join lateral (
    select job.kind_id, job.priority from stokehold.jobs job
    where job.state = 'available' and (job.kind_id, job.priority) > (lane.kind_id, lane.priority)
    order by job.kind_id, job.priority limit 1
  ) next
), active as (
  select lane.kind_id, lane.priority
  from (select kind_id, priority from lane union select kind_id, priority from released) lane
  join stokehold.kinds kind on kind.id = lane.kind_id
  where kind.active_release is not null and ($1::text[] is null or kind.queue = any($1))
)
select
  coalesce((select array_agg(kind_id order by priority, kind_id) from active), '{}') as "kind_ids!",
  coalesce((select array_agg(priority order by priority, kind_id) from active), '{}') as "priorities!",
  (select count(*) from released) as "released!",
  -- As the statement began: a job released just now may still be the answer, which costs one early look.
  (select extract(epoch from min(run_at) - clock_timestamp())::float8 from stokehold.jobs
    where state in ('scheduled', 'retryable')) as next_due_s,
  exists (select from stokehold.runners
      where state = 'live' and lease_expires_at < clock_timestamp())
    or exists (select from stokehold.runners runner
      where runner.state <> 'live'
        and exists (select from stokehold.jobs job where job.runner_id = runner.id and job.state = 'running'))
    as "dead_runners!"
