-- The schedule that is due first and that nobody else is firing, and whether a job of it has not ended.
-- Indexes: schedules_due, schedule_jobs, jobs_pkey.
-- Locks: its row until the transaction ends; those of others are passed by.
select id, name as "name!: String", cron, timezone, misfire, misfire_window_s, overlap,
  next_fire_at as "next_fire_at!", clock_timestamp() as "now!",
  overlap = 'skip' and exists (select from (
      select job_id from stokehold.schedule_fires fire
      where fire.schedule_id = schedule.id and job_id is not null
      order by fire_at desc limit 1000) made
    join stokehold.jobs job on job.id = made.job_id) as "overlaps!"
from stokehold.schedules schedule
where due_at <= clock_timestamp()
order by due_at
limit 1
for update skip locked
