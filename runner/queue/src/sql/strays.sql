-- Makes jobs ready again that are available but neither ready nor held by any claim, or that wait for a key
-- under which they are not known. No statement here
-- leaves such a job; a change by hand, or a table restored without the others, can.
-- $1 only ids above this one, $2 most jobs looked at.
-- Indexes: jobs_pkey from $1 on, ready_lanes. Locks: the rows that are put right. All tables are seen as
-- of one moment, in which a job that a claim takes right now is still ready or already held.
with page as materialized (
  select id, kind_id, priority, position, token, state, concurrency_key
  from stokehold.jobs where id > $1 order by id limit $2
), held as materialized (
  select id, token from stokehold.claims cross join unnest(job_ids) as held(id)
), stray as materialized (
  select id, position
  from page
  where state = 'available'
    and not exists (select from stokehold.ready
      where kind_id = page.kind_id and priority = page.priority and position = page.position)
    and not exists (select from held where held.id = page.id and held.token > page.token)
    or state = 'pending'
    and not exists (select from stokehold.parked
      where kind_id = page.kind_id and key = page.concurrency_key and priority = page.priority
        and position = page.position)
), restored as (
  update stokehold.jobs job
  set position = nextval('stokehold.positions'), state = 'available'
  from stray
  -- Another node may have put it right meanwhile.
  where job.id = stray.id and job.state in ('available', 'pending') and job.position = stray.position
  returning job.id, job.kind_id, job.priority, job.position
), queued as (
  insert into stokehold.ready (kind_id, priority, position, job_id)
  select kind_id, priority, position, id from restored
)
select (select max(id) from page) as last, (select count(*) from restored) as "restored!"
