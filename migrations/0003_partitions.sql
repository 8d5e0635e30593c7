-- Days of history: made ahead of time, dropped when they are over the age kept.

-- Makes the partitions from yesterday to `ahead` days from now, drops those over the age kept, and
-- returns how many of each. Days are UTC. Idempotent, and safe to call from every node: one works,
-- the others see that it does and leave.
-- Locks: ACCESS EXCLUSIVE on a dropped partition and its parent, SHARE UPDATE EXCLUSIVE on the parent
-- for a new one, and ACCESS EXCLUSIVE on the default partition while a new day is filled and attached.
create function stokehold.keep_partitions(ahead int default 3, out made int, out dropped int)
language plpgsql
set search_path = stokehold, pg_temp
set lock_timeout = '2s'
set timezone = 'UTC'
as $$
declare
  parent text;
  by_column text;
  first_day date := current_date - 1;
  oldest date := current_date - (select history_days from settings);
  day date;
  partition text;
begin
  made := 0;
  dropped := 0;
  if not pg_try_advisory_xact_lock(hashtext('stokehold.keep_partitions')) then
    return;
  end if;
  for parent, by_column in
    values ('job_history', 'finished_at'), ('job_attempts', 'finished_at'), ('job_logs', 'flushed_at')
  loop
    for day in select generate_series(first_day, current_date + ahead, '1 day')::date loop
      partition := parent || '_' || to_char(day, 'YYYYMMDD');
      if to_regclass('stokehold.' || partition) is null then
        -- Rows that came while the day was missing stand in the default partition: take them along,
        -- or attaching would be refused. None may come in between: under load one always does.
        execute format('create table %I (like %I including defaults including constraints)', partition, parent);
        execute format('lock table only %I in access exclusive mode', parent || '_default');
        execute format(
          'with moved as (delete from %I where %I >= %L and %I < %L returning *) insert into %I select * from moved',
          parent || '_default', by_column, day, by_column, day + 1, partition);
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
          parent, partition, day, day + 1);
        made := made + 1;
      end if;
    end loop;
    for partition in
      select c.relname from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = ('stokehold.' || parent)::regclass
          and c.relname ~ ('^' || parent || '_[0-9]{8}$')
          and to_date(right(c.relname, 8), 'YYYYMMDD') < oldest
    loop
      execute format('drop table %I', partition);
      dropped := dropped + 1;
    end loop;
  end loop;
end
$$;

select stokehold.keep_partitions();
