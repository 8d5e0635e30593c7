-- Claims the next available jobs of some lanes for one runner.
-- $1 runner, $2..$5 lanes as arrays: kind, priority, position to start after, most to take.
-- Index: jobs_lanes, from the lane's cursor on, in order of position.
-- Locks: the picked rows, skipping those locked by others; nothing when the runner's lease is over.
-- The picking is a materialized CTE: as a subquery of an IN it may run more than once and claim more
-- than its limit. What was picked goes on as one array: as a join the planner took it for a tenth of
-- every lane and scanned the whole table for each claim.
with picked as materialized (
  select job.id
  from stokehold.runners runner
  cross join unnest($2::int[], $3::smallint[], $4::bigint[], $5::int[])
    with ordinality as lane(kind_id, priority, after_position, quota, n)
  cross join lateral (
    select id
    from stokehold.jobs
    where state = 'available'
      and kind_id = lane.kind_id
      and priority = lane.priority
      and position > lane.after_position
    order by position
    limit lane.quota
    for update skip locked
  ) job
  where runner.id = $1 and runner.state = 'live' and runner.lease_expires_at > clock_timestamp()
)
update stokehold.jobs job
set state = 'running',
  runner_id = $1,
  started_at = clock_timestamp(),
  token = job.token + 1,
  attempt = job.attempt + 1
from stokehold.kinds kind
where job.id = any(array(select id from picked)) and kind.id = job.kind_id and kind.active_release is not null
returning job.id, job.kind_id, job.priority, job.position as "position!", job.token, job.attempt,
  job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata,
  job.last_problem, job.enqueued_at, job.run_at, kind.active_release as "release!"
