-- Stores log lines of attempts whose claim is current.
-- $1 runner; the rest are arrays with one element for each chunk.
-- Indexes: claims_pkey, jobs_pkey; looked up one by one, see finish.sql. Locks: none.
insert into stokehold.job_logs (job_id, token, attempt, started_at, lines)
select chunk.job_id, chunk.token, chunk.attempt, claim.claimed_at, chunk.lines::jsonb
from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[])
  as chunk(job_id, token, claim, attempt, lines)
cross join lateral (
  select claimed_at from stokehold.claims
  where runner_id = $1 and number = chunk.claim and token = chunk.token
  limit 1) claim
cross join lateral (
  select from stokehold.jobs where id = chunk.job_id and token < chunk.token limit 1) job
