-- As before, with each job looked up by itself: a plan that takes the table of jobs for an empty one may read
-- all of it for each request.
-- Locks: none that matter, a function is replaced by one that takes and gives the same.

create or replace function stokehold.follow_cancels(most int) returns int
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  request record;
  answer text;
  cancelled int := 0;
begin
  for request in
    select asked.job_id, asked.problem
    from stokehold.cancels asked
    left join lateral (
      select id, state, kind_id, priority, position from stokehold.jobs where id = asked.job_id limit 1) job on true
    where job.id is null or job.state <> 'available'
      or exists (select from stokehold.ready
        where kind_id = job.kind_id and priority = job.priority and position = job.position)
    order by asked.job_id
    limit follow_cancels.most
    for update of asked skip locked
  loop
    answer := stokehold.cancel_job(request.job_id, request.problem);
    cancelled := cancelled + (answer = 'cancelled')::int;
    -- Claimed meanwhile: it stands.
    if answer <> 'requested' then
      delete from stokehold.cancels where job_id = request.job_id;
    end if;
  end loop;
  return cancelled;
end
$$;
