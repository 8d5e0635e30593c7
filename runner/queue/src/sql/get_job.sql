-- One job, live or ended. Indexes: jobs_pkey, job_history_by_id in each day, retries_pkey, retries_by_job.
select job.id as "id!", job.kind_id as "kind_id!", kind.name as "kind!: String", kind.queue as "queue!: String", state as "state!",
  job.priority as "priority!", attempt as "attempt!", job.max_attempts as "max_attempts!",
  snoozes as "snoozes!", lost as "lost!", run_at as "run_at!", enqueued_at as "enqueued_at!",
  started_at, finished_at, runner_id, release, outcome, media_type, payload as "payload!", metadata, options,
  result, result_media_type, problem, fuel, wall_us, peak_memory_bytes, host_calls,
  (select of_job from stokehold.retries where job_id = job.id limit 1) as retry_of,
  (select job_id from stokehold.retries where of_job = job.id) as retried_as
from (
  select id, kind_id, state::text, priority, attempt, max_attempts, snoozes, lost, run_at, enqueued_at,
    started_at, null::timestamptz as finished_at, runner_id, pinned_release as release, null::text as outcome,
    media_type, payload, metadata, options, null::bytea as result, null::text as result_media_type,
    last_problem as problem, null::bigint as fuel, null::bigint as wall_us,
    null::bigint as peak_memory_bytes, null::bigint as host_calls
  from stokehold.live_jobs where id = $1
  union all
  select id, kind_id, state::text, priority, attempt, max_attempts, snoozes, lost, run_at, enqueued_at,
    started_at, finished_at, runner_id, release, outcome, media_type, payload, metadata, options, result,
    result_media_type, problem, fuel, wall_us, peak_memory_bytes, host_calls
  from stokehold.job_history where id = $1
) job
join stokehold.kinds kind on kind.id = job.kind_id
