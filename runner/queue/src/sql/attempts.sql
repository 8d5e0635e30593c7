-- Every attempt of a job in order: those that did not end it, the one that did, the one that runs.
-- $1 job. Indexes: job_attempts_by_job, job_history_by_id, jobs_pkey.
select attempt as "attempt!", token as "token!", runner_id, release, started_at, finished_at,
  outcome, problem, fuel, wall_us, peak_memory_bytes, host_calls
from (
  select attempt, token, runner_id, release, started_at, finished_at, outcome, problem, fuel, wall_us,
    peak_memory_bytes, host_calls
  from stokehold.job_attempts where job_id = $1
  union all
  select attempt, token, runner_id, release, started_at, finished_at, outcome, problem, fuel, wall_us,
    peak_memory_bytes, host_calls
  from stokehold.job_history where id = $1 and started_at is not null and outcome <> 'node.lost'
  union all
  select attempt, token, runner_id, null, started_at, null, null, null, null, null, null, null
  from stokehold.live_jobs where id = $1 and state = 'running'
) attempts
order by token
limit 1000
