-- Runners that live or ended within the last day, newest first, with how many jobs each holds.
-- Indexes: claims_pkey, by runner, and jobs_pkey. Locks: none.
-- Each job is looked up by itself: as a join it was planned the other way round, every job of a table that was
-- thought to be empty against every claim, and listing two runners took 26 s.
select runner.id, runner.name, runner.version, runner.queues, runner.slots,
  case when runner.state = 'live' and runner.lease_expires_at < clock_timestamp()
    then 'dead' else runner.state end as "state!",
  runner.registered_at, runner.beat_at, runner.drain_at is not null as "draining!",
  (select count(*) from stokehold.claims claim
    cross join unnest(claim.job_ids) as held(id)
    cross join lateral (
      select from stokehold.jobs where id = held.id and token < claim.token limit 1) job
    where claim.runner_id = runner.id) as "running!"
from stokehold.runners runner
where runner.state = 'live' or runner.ended_at > clock_timestamp() - interval '1 day'
order by runner.id desc limit 1000
