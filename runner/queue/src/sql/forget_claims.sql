-- Forgets the claims of runners that no longer live once nothing of them runs any more.
-- Indexes: claims_pkey, jobs_pkey. Locks: the rows of claims, which nobody else writes any more.
delete from stokehold.claims claim
using stokehold.runners runner
where runner.id = claim.runner_id and runner.state <> 'live'
  and not exists (
    select from unnest(claim.job_ids) as held(id)
    cross join lateral (select token from stokehold.jobs where id = held.id limit 1) job
    where job.token < claim.token)
