-- Says of writes that changed nothing why: applied earlier, or the claim is no longer theirs.
-- $1 runner, $2 jobs, $3 tokens, $4 numbers of claims.
-- Indexes: job_history_by_id, job_attempts_by_job, jobs_pkey, claims_pkey.
-- What the sweep recorded of a lost node is not an answer to the node's own write; the sweep does not
-- know the release that ran. Looked up one by one: as EXISTS the planner prefers to read all of history
-- once, when it has many to look up.
select asked.job_id as "job_id!", asked.token as "token!",
  coalesce(
    (select true from stokehold.job_history h
      where h.id = asked.job_id and h.token = asked.token and h.runner_id = $1 and h.outcome <> 'node.lost'
      limit 1),
    (select true from stokehold.job_attempts a
      where a.job_id = asked.job_id and a.token = asked.token and a.runner_id = $1
        and (a.outcome <> 'node.lost' or a.release is not null)
      limit 1),
    false) as "already!",
  coalesce((select true from stokehold.jobs j where j.id = asked.job_id), false) as "live!",
  -- The row changed under the write and the claim is as good as before: write again.
  coalesce((select j.token < asked.token and j.state = 'available' and claim.token = asked.token
    from stokehold.jobs j, stokehold.claims claim
    where j.id = asked.job_id and claim.runner_id = $1 and claim.number = asked.claim), false) as "held!"
from unnest($2::bigint[], $3::bigint[], $4::bigint[]) as asked(job_id, token, claim)
