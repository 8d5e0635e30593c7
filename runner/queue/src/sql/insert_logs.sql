-- Stores log lines of attempts whose claim is current.
-- $1 runner; the rest are arrays with one element for each chunk.
-- Index: jobs_pkey; for the form of the guard and of the arrays see finish.sql. Locks: none.
insert into stokehold.job_logs (job_id, token, attempt, started_at, lines)
select chunk.job_id, chunk.token, chunk.attempt, job.started_at, chunk.lines::jsonb
from unnest((select $2::bigint[]), (select $3::bigint[]), (select $4::smallint[]), (select $5::text[]))
  as chunk(job_id, token, attempt, lines)
join stokehold.jobs job on job.id = chunk.job_id and job.token = chunk.token
  and job.runner_id is not distinct from $1 and job.state::text = 'running'
