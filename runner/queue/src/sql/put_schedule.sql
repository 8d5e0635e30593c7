-- Makes a schedule or changes it. It goes on from the next time, unless neither expression nor zone has changed.
-- Index: the name's. Locks: the schedule's row, and with it whoever fires it.
insert into stokehold.schedules as old (name, kind_id, cron, timezone, payload, media_type, priority, max_attempts,
  metadata, misfire, misfire_window_s, overlap, next_fire_at, due_at)
select $1::text, k.id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13
from stokehold.kinds k where k.name = $2::text
on conflict (name) do update set kind_id = excluded.kind_id, cron = excluded.cron, timezone = excluded.timezone,
  payload = excluded.payload, media_type = excluded.media_type, priority = excluded.priority,
  max_attempts = excluded.max_attempts, metadata = excluded.metadata, misfire = excluded.misfire,
  misfire_window_s = excluded.misfire_window_s, overlap = excluded.overlap, problem = null,
  next_fire_at = case when (old.cron, old.timezone) = (excluded.cron, excluded.timezone)
    then old.next_fire_at else excluded.next_fire_at end,
  due_at = case when old.paused_at is not null then null
    when (old.cron, old.timezone) = (excluded.cron, excluded.timezone) then old.next_fire_at
    else excluded.next_fire_at end
returning (xmax = 0) as "is_new!"
