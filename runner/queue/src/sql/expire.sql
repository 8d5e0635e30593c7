-- Marks runners dead whose lease is over.
-- $1 the lease in seconds.
-- Index: runners_live. Locks: the expired runners' rows, skipping those another sweep has.
-- If many expire at once, more likely the database's clock jumped than that all died: then only those
-- that are over by one more lease are taken.
with live as (
  select count(*) as runners,
    count(*) filter (where lease_expires_at < clock_timestamp()) as expired
  from stokehold.runners where state = 'live'
), over as materialized (
  select runner.id
  from stokehold.runners runner, live
  where runner.state = 'live'
    and runner.lease_expires_at < clock_timestamp()
      - case when live.expired > greatest(2, live.runners * 0.3) then $1::float8 else 0 end * interval '1 second'
  for update of runner skip locked
), dead as (
  update stokehold.runners runner
  set state = 'dead', ended_at = clock_timestamp()
  from over
  where runner.id = over.id and runner.state = 'live'
    -- Renewed between the look and the lock: alive.
    and runner.lease_expires_at < clock_timestamp()
  returning runner.id
), awake as (
  delete from stokehold.sleepers sleeper using dead where sleeper.runner_id = dead.id
)
select count(*) as "dead!" from dead
