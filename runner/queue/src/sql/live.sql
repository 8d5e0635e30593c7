-- Live jobs that nobody has asked to cancel, in order of id.
-- $1 kind, $2 queue, $3 states, $4 enqueued before; each null for any; $5 only ids above; $6 most rows.
-- Indexes: jobs_pkey; the filters are applied on the way.
select job.id as "id!"
from stokehold.live_jobs job
where ($1::int is null or kind_id = $1)
  and ($2::text is null or (select queue from stokehold.kinds where id = job.kind_id) = $2)
  and ($3::text[] is null or state::text = any($3))
  and ($4::timestamptz is null or enqueued_at < $4)
  and job.id > $5
  and not exists (select from stokehold.cancels where job_id = job.id)
order by job.id
limit $6
