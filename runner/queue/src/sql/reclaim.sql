-- What one claim took and still holds, for the runner that never heard whether it was committed.
-- $1 runner, $2 the number of the claim.
-- Indexes: claims_pkey, jobs_pkey. Locks: none.
select job.id as "id!", job.kind_id as "kind_id!", job.priority as "priority!",
  job.position as "position!", claim.token as "token!", job.attempt + 1 as "attempt!",
  job.max_attempts as "max_attempts!", job.snoozes as "snoozes!", job.lost as "lost!",
  job.media_type, job.payload as "payload!", job.metadata, job.last_problem,
  job.enqueued_at as "enqueued_at!", job.run_at as "run_at!",
  coalesce(job.pinned_release, (select active_release from stokehold.kinds where id = job.kind_id))
    as "release!", job.options, coalesce(job.expires_at <= clock_timestamp(), false) as "expired!"
from stokehold.claims claim
cross join unnest(claim.job_ids) as held(id)
cross join lateral (
  select * from stokehold.jobs where id = held.id and token < claim.token limit 1) job
where claim.runner_id = $1 and claim.number = $2
