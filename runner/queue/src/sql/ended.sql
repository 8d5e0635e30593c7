-- Ended jobs that did not complete and have not been retried, in order of id.
-- $1 kind, null for any; $2 states; $3 outcome or what it begins with before a dot, null for any; $4, $5 ended
-- from and before, null for any; $6 only ids above; $7 most rows.
-- Indexes: job_history_failed in each day, for which the state stands here as a word; retries_pkey.
select id as "id!"
from stokehold.job_history ended
where state <> 'completed'
  and state = any($2::text[]::stokehold.job_state[])
  and ($1::int is null or kind_id = $1)
  and ($3::text is null or outcome = $3 or starts_with(outcome, $3 || '.'))
  and ($4::timestamptz is null or finished_at >= $4)
  and ($5::timestamptz is null or finished_at < $5)
  and id > $6
  and not exists (select from stokehold.retries where of_job = ended.id)
order by id
limit $7
