-- Claims the next available jobs of some lanes for one runner.
-- $1 runner; $2 the number of this claim; $3..$6 lanes as arrays: kind, priority, position to start
-- after, most to take; $7 numbers of earlier claims of which every job is answered; $8 queues served,
-- null for all: a lane of another queue gives nothing, whoever pointed to it.
-- Index: jobs_lanes, from the lane's cursor on, in order of position.
-- Locks: the picked rows, skipping those locked by others; nothing when the runner's lease is over.
-- The picking is a materialized CTE: as a subquery of an IN it may run more than once and claim more
-- than its limit. What was picked goes on as one array of places: as a join the planner took it for a
-- tenth of every lane and scanned the whole table for each claim. The release is looked up row by row
-- for the same reason: the plan must be right whatever the tables held when it was made (see
-- database.rs). A row that changed between look and lock stands elsewhere by then and is left for the
-- next claim.
-- What was picked is noted in the same commit, so that a claim is known to the database as a whole
-- even when the runner never hears of it.
with picked as materialized (
  select job.id, job.place
  from stokehold.runners runner
  cross join unnest($3::int[], $4::smallint[], $5::bigint[], $6::int[])
    with ordinality as lane(kind_id, priority, after_position, quota, n)
  cross join lateral (
    select id, ctid as place
    from stokehold.jobs
    where state = 'available'
      and kind_id = lane.kind_id
      and priority = lane.priority
      and position > lane.after_position
    order by position
    limit case
      when (select active_release is not null and ($8::text[] is null or queue = any($8))
        from stokehold.kinds where id = lane.kind_id)
      then lane.quota else 0 end
    for update skip locked
  ) job
  where runner.id = $1 and runner.state = 'live' and runner.lease_expires_at > clock_timestamp()
), noted as (
  insert into stokehold.claims (runner_id, number, job_ids)
  select $1, $2, ids from (select array(select id from picked)) as picked(ids) where ids <> '{}'
), answered as (
  delete from stokehold.claims where runner_id = $1 and number = any($7::bigint[])
)
update stokehold.jobs job
set state = 'running',
  runner_id = $1,
  started_at = clock_timestamp(),
  token = job.token + 1,
  attempt = job.attempt + 1
where job.ctid = any(array(select place from picked))
returning job.id, job.kind_id, job.priority, job.position as "position!", job.token, job.attempt,
  job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata,
  job.last_problem, job.enqueued_at, job.run_at,
  (select active_release from stokehold.kinds where id = job.kind_id) as "release!"
