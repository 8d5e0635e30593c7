-- One page of jobs, live and ended, newest id first.
-- $1 kind, $2 states, $3 only ids below, $5 tags, $6 pairs of the metadata; each null for any; $4 most rows; $7 in
-- how many jobs that the other filters leave the metadata is looked for.
-- Indexes: jobs_pkey, job_history_by_id and job_history_failed, read backwards, the filters being applied on the
-- way; jobs_tagged and job_history_tagged. What did not complete is read apart: of months of history it is little,
-- and what people look for. The caller's connection plans with the values.
select id as "id!", kind_id as "kind_id!", state as "state!", priority as "priority!",
  attempt as "attempt!", max_attempts as "max_attempts!", lost as "lost!", run_at as "run_at!",
  enqueued_at as "enqueued_at!", started_at, finished_at, outcome
from (
  (select id, kind_id, state::text, priority, attempt, max_attempts, lost, run_at, enqueued_at, started_at,
    null::timestamptz as finished_at, null::text as outcome
  from (
    select * from stokehold.live_jobs
    where ($2::text[] is null or $2 && array['scheduled', 'available', 'running', 'retryable', 'pending'])
      and ($2::text[] is null or state::text = any($2))
      and ($1::int is null or kind_id = $1)
      and ($3::bigint is null or id < $3)
      and ($5::text[] is null or (options ? 'tags' and options -> 'tags' @> to_jsonb($5)))
    order by id desc limit case when $6::jsonb is not null then $7::bigint end
  ) looked
  where $6::jsonb is null or metadata @> $6
  order by id desc limit $4)
  union all
  (select id, kind_id, state::text, priority, attempt, max_attempts, lost, run_at, enqueued_at, started_at,
    finished_at, outcome
  from (
    select * from stokehold.job_history
    where state = 'completed'
      and ($2::text[] is null or 'completed' = any($2))
      and ($1::int is null or kind_id = $1)
      and ($3::bigint is null or id < $3)
      and ($5::text[] is null or (options ? 'tags' and options -> 'tags' @> to_jsonb($5)))
    order by id desc limit case when $6::jsonb is not null then $7::bigint end
  ) looked
  where $6::jsonb is null or metadata @> $6
  order by id desc limit $4)
  union all
  (select id, kind_id, state::text, priority, attempt, max_attempts, lost, run_at, enqueued_at, started_at,
    finished_at, outcome
  from (
    select * from stokehold.job_history
    where state <> 'completed'
      and ($2::text[] is null or $2 && array['discarded', 'cancelled'])
      and ($2::text[] is null or state::text = any($2))
      and ($1::int is null or kind_id = $1)
      and ($3::bigint is null or id < $3)
      and ($5::text[] is null or (options ? 'tags' and options -> 'tags' @> to_jsonb($5)))
    order by id desc limit case when $6::jsonb is not null then $7::bigint end
  ) looked
  where $6::jsonb is null or metadata @> $6
  order by id desc limit $4)
) job
order by id desc
limit $4
