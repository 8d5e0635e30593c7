-- Claims the next available jobs of some lanes for one runner. Stands in stokehold.take_turn as well.
-- $1 runner; $2 the number of this claim; $3..$6 lanes as arrays: kind, priority, position to start
-- after, most to take; $7 numbers of earlier claims of which every job is answered; $8 queues served,
-- null for all: a lane of another queue gives nothing, whoever pointed to it. Of kinds that have limits it takes
-- nothing: see claim_limited.
-- Indexes: ready_lanes, from the lane's cursor on, in order of position; jobs_pkey for what was taken.
-- Locks: the picked rows of ready, skipping those locked by others; nothing when the runner's lease is
-- over. The jobs themselves are only read: whoever changes a waiting job takes its ready row away first.
-- The picking is a materialized CTE: as a subquery of an IN it may run more than once and claim more
-- than its limit. What was picked goes on as one array of places: as a join the planner took it for a
-- tenth of every lane and scanned the whole table for each claim. Each job is looked up by itself for
-- the same reason: the plan must be right whatever the tables held when it was made (see database.rs).
-- The claim is one row, with all that it took: so it is known to the database as a whole even when the
-- runner never hears of it, and no job has to be written for it.
with picked as materialized (
  select ready.job_id, ready.position, ready.place, kind.release
  from stokehold.runners runner
  cross join unnest($3::int[], $4::smallint[], $5::bigint[], $6::int[])
    with ordinality as lane(kind_id, priority, after_position, quota, n)
  cross join lateral (
    select active_release as release
    from stokehold.kinds
    where id = lane.kind_id and active_release is not null and ($8::text[] is null or queue = any($8))
      and not limited
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
  select $1, $2, ids from (select array(select job_id from picked)) as picked(ids) where ids <> '{}'
  returning token
), answered as (
  delete from stokehold.claims where runner_id = $1 and number = any($7::bigint[])
)
select job.id as "id!", job.kind_id as "kind_id!", job.priority as "priority!",
  picked.position as "position!", (select token from claimed) as "token!",
  job.attempt + 1 as "attempt!", job.max_attempts as "max_attempts!", job.snoozes as "snoozes!",
  job.lost as "lost!", job.media_type, job.payload as "payload!", job.metadata, job.last_problem,
  job.enqueued_at as "enqueued_at!", job.run_at as "run_at!",
  coalesce(job.pinned_release, picked.release) as "release!", job.options,
  coalesce(job.expires_at <= clock_timestamp(), false) as "expired!"
from picked
cross join lateral (select * from stokehold.jobs where id = picked.job_id limit 1) job
