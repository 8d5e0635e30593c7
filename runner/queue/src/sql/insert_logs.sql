-- Stores log lines of attempts whose claim is current.
-- $1 runner; the rest are arrays with one element for each chunk.
-- Index: jobs_pkey; looked up one by one, see finish.sql. Locks: none.
insert into stokehold.job_logs (job_id, token, attempt, started_at, lines)
select chunk.job_id, chunk.token, chunk.attempt, job.started_at, chunk.lines::jsonb
from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::text[])
  as chunk(job_id, token, attempt, lines)
cross join lateral (
  select started_at from stokehold.jobs
  where id = chunk.job_id and token = chunk.token and runner_id = $1 and state = 'running'
  limit 1) job
