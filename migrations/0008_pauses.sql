-- Pausing: nothing of a kind, a queue or anything at all is claimed until a time or until it is resumed.
-- Safe beside nodes of the version before, which do not know of pauses and claim all the same: a pause holds
-- once the last of them is gone.
-- Locks: ACCESS EXCLUSIVE on kinds for a new column, short.

-- What somebody has paused. Rows are few and outlive their time until the next pause or resume.
create table stokehold.pauses (
  scope text not null check (scope in ('all', 'queue', 'kind')),
  -- Of the queue or kind; empty for all.
  name text not null,
  -- infinity: until it is resumed.
  until timestamptz not null,
  reason text check (octet_length(reason) <= 8000),
  paused_at timestamptz not null default clock_timestamp(),
  primary key (scope, name),
  constraint all_has_no_name check ((scope = 'all') = (name = ''))
);

-- What follows for each kind, so that a claim looks at a row that it reads anyway: the latest end of the
-- pauses that hold it. Null, or a time that is over: not paused.
alter table stokehold.kinds add column paused_until timestamptz;
create index kinds_paused on stokehold.kinds (id) where paused_until is not null;

-- Until when a kind of this name in this queue is paused; null if it is not.
create function stokehold.pause_of(kind text, queue text) returns timestamptz
language sql stable
set search_path = stokehold, pg_temp
as $$
  select max(until) from pauses
  where until > clock_timestamp()
    and (scope = 'all' or (scope = 'queue' and name = pause_of.queue) or (scope = 'kind' and name = pause_of.kind))
$$;

-- Pauses and what decides to which kinds they apply change one after the other, or each would miss the
-- other's uncommitted rows. First of all locks, so that nobody waits in a circle.
create function stokehold.lock_pauses() returns trigger
language plpgsql
set search_path = stokehold, pg_temp
as $$
begin
  perform pg_advisory_xact_lock(hashtext('stokehold.pauses'));
  return null;
end
$$;
create function stokehold.apply_pauses_to_kind() returns trigger
language plpgsql
set search_path = stokehold, pg_temp
as $$
begin
  new.paused_until := pause_of(new.name, new.queue);
  return new;
end
$$;
create trigger lock_pauses before insert or update of queue on stokehold.kinds
  for each statement execute function stokehold.lock_pauses();
create trigger apply_pauses before insert or update of queue on stokehold.kinds
  for each row execute function stokehold.apply_pauses_to_kind();

-- Writes into every kind what the pauses say, and has the nodes look.
create function stokehold.apply_pauses() returns void
language plpgsql
set search_path = stokehold, pg_temp
as $$
begin
  delete from pauses where until <= clock_timestamp();
  update kinds kind set paused_until = said.until
    from (select id, pause_of(name, queue) as until from kinds) said
    where kind.id = said.id and kind.paused_until is distinct from said.until;
  perform pg_notify('stokehold_wake', '');
end
$$;

-- Pauses a queue, a kind or all (without a name) until the time; again: the last call counts. What runs goes
-- on. With the caller's rights on the tables, which those of runners and API have.
create function stokehold.pause(
  scope text, name text, until timestamptz default 'infinity', reason text default null
) returns void
language plpgsql
set search_path = stokehold, pg_temp
as $$
#variable_conflict use_column
begin
  if pause.scope not in ('all', 'queue', 'kind') or (pause.scope = 'all') <> (pause.name = '') then
    raise exception 'a pause is of a queue, a kind or all, and only all has no name'
      using errcode = 'SH422', hint = 'For example: select stokehold.pause(''queue'', ''mail'').';
  end if;
  if pause.scope = 'kind' and not exists (select from kinds kind where kind.name = pause.name) then
    raise exception 'there is no kind %', coalesce(quote_literal(pause.name), 'null')
      using errcode = 'SH404', hint = 'Create it first, or push a handler for it.';
  end if;
  if pause.until <= clock_timestamp() then
    raise exception 'the pause would be over: % is past', pause.until
      using errcode = 'SH422', hint = 'Leave the time out to pause until it is resumed.';
  end if;
  perform pg_advisory_xact_lock(hashtext('stokehold.pauses'));
  insert into pauses as held (scope, name, until, reason)
    values (pause.scope, pause.name, pause.until, pause.reason)
    on conflict (scope, name) do update set until = excluded.until, reason = excluded.reason,
      paused_at = case when held.until > clock_timestamp() then held.paused_at else excluded.paused_at end;
  perform apply_pauses();
end
$$;

-- Ends such a pause; false if there was none. Pauses of the other scopes stay.
create function stokehold.resume(scope text, name text) returns boolean
language plpgsql
set search_path = stokehold, pg_temp
as $$
#variable_conflict use_column
declare
  was_paused boolean;
begin
  perform pg_advisory_xact_lock(hashtext('stokehold.pauses'));
  delete from pauses where scope = resume.scope and name = resume.name
    returning until > clock_timestamp() into was_paused;
  perform apply_pauses();
  return coalesce(was_paused, false);
end
$$;
