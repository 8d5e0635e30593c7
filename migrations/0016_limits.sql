-- Limits: how many jobs of a kind run at a time, how many that share a key, how many start in a time; and the order
-- of those that share a key.
-- Nodes of the version before claim nothing of a kind once it is limited, and give no permits back: stop them
-- before you set a first limit.
-- Locks: ACCESS EXCLUSIVE on kinds, jobs and claims for new columns, short; kinds is written anew, which is small.

alter table stokehold.kinds
  add column max_running int check (max_running between 1 and 1000000),
  add column max_running_per_key int check (max_running_per_key between 1 and 1000000),
  -- Those that share a key run in the order in which they became available, and a failed one is tried again first.
  add column keeps_order boolean not null default false,
  -- A bucket of `burst` tokens, one for each start, into which `starts` come back in `per_ms`.
  add column rate_starts int check (rate_starts between 1 and 1000000),
  add column rate_per_ms int check (rate_per_ms between 1 and 86400000),
  add column rate_burst int check (rate_burst between 1 and 1000000),
  add column key_rate_starts int check (key_rate_starts between 1 and 1000000),
  add column key_rate_per_ms int check (key_rate_per_ms between 1 and 86400000),
  add column key_rate_burst int check (key_rate_burst between 1 and 1000000),
  add constraint order_is_one_at_a_time check (not keeps_order or max_running_per_key is not distinct from 1),
  add constraint rates_are_whole check (
    (rate_starts is null) = (rate_per_ms is null) and (rate_starts is null) = (rate_burst is null)
    and (key_rate_starts is null) = (key_rate_per_ms is null) and (key_rate_starts is null) = (key_rate_burst is null)),
  -- Keys matter.
  add column keyed boolean not null generated always as
    (max_running_per_key is not null or key_rate_starts is not null) stored,
  add column limited boolean not null generated always as
    (max_running is not null or max_running_per_key is not null or rate_starts is not null
      or key_rate_starts is not null) stored,
  -- When its permits are to be counted anew.
  add column recount_at timestamptz;
create index kinds_limited on stokehold.kinds (id) where limited;
create index kinds_to_recount on stokehold.kinds (recount_at) where recount_at is not null;

-- What the limits of a kind are reckoned by. Whoever claims of a limited kind locks its row first, and nobody else
-- does: all that follows changes under this lock alone.
create table stokehold.kind_permits (
  kind_id int primary key,
  running int not null default 0 check (running >= 0),
  -- When the bucket would be full again, were nothing taken.
  full_at timestamptz not null default '-infinity',
  -- Up to which row freed_permits has been read; had been at some time, and at the time before that.
  freed_to bigint not null default 0,
  freed_then bigint not null default 0,
  freed_before bigint not null default 0,
  freed_then_at timestamptz not null default '-infinity'
) with (fillfactor = 50);

-- The same for each key in use. Rows of keys that nothing runs or waits under are deleted in passing.
create table stokehold.key_permits (
  kind_id int not null,
  key text not null,
  held int not null default 0 check (held >= 0),
  full_at timestamptz not null default '-infinity',
  -- The priority of the first of its jobs that wait for it, and from when on that may run: null while nothing
  -- waits, or too many run.
  next_priority smallint not null default 0,
  opens_at timestamptz,
  primary key (kind_id, key)
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index key_permits_opening on stokehold.key_permits (kind_id, next_priority, opens_at) where opens_at is not null;
create index key_permits_due on stokehold.key_permits (opens_at) where opens_at is not null;

-- Jobs that wait for their key: their state is pending.
create table stokehold.parked (
  kind_id int not null,
  key text not null,
  priority smallint not null,
  position bigint not null,
  job_id bigint not null
) with (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index parked_by_key on stokehold.parked (kind_id, key, priority, position);

-- Permits that came back, written with the outcome that brings them and reckoned by the next claim. So outcomes lock
-- nothing of a limit, and a permit comes back exactly if the outcome is committed.
create table stokehold.freed_permits (
  id bigint generated always as identity,
  kind_id int not null,
  key text,
  -- Jobs that no longer run, and those of them that no longer hold their key.
  running int not null,
  held int not null
) with (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index freed_permits_by_kind on stokehold.freed_permits (kind_id, id);

-- Kinds whose permits the jobs of this claim hold.
alter table stokehold.claims add column permits_of int[];
-- It waits and holds its key meanwhile, for the order's sake.
alter table stokehold.jobs add column holds_key boolean;

-- A kind whose limits change is counted anew, at once and again when claims that began before are over.
create function stokehold.limits_changed() returns trigger
language plpgsql
set search_path = stokehold, pg_temp
as $$
begin
  insert into kind_permits (kind_id) values (new.id) on conflict do nothing;
  new.recount_at := clock_timestamp();
  return new;
end
$$;
-- After: a kind that is there already is inserted in vain, under another number.
create trigger limits_made after insert on stokehold.kinds
  for each row when (new.limited) execute function stokehold.limits_changed();
create trigger limits_changed before update of max_running, max_running_per_key, keeps_order, rate_starts, rate_per_ms,
    rate_burst, key_rate_starts, key_rate_per_ms, key_rate_burst on stokehold.kinds
  for each row when (
    (old.max_running, old.max_running_per_key, old.keeps_order, old.rate_starts, old.rate_per_ms, old.rate_burst,
      old.key_rate_starts, old.key_rate_per_ms, old.key_rate_burst)
    is distinct from
    (new.max_running, new.max_running_per_key, new.keeps_order, new.rate_starts, new.rate_per_ms, new.rate_burst,
      new.key_rate_starts, new.key_rate_per_ms, new.key_rate_burst))
  execute function stokehold.limits_changed();

-- How many tokens a bucket has, at most `most`. It was, or will be, full again at `full_at`.
create function stokehold.tokens(full_at timestamptz, starts int, per_ms int, burst int, at timestamptz, most int)
returns int
language sql immutable
as $$
  select case when starts is null then most else
    -- A hair's breadth for times that are rounded to microseconds.
    least(most, floor(burst - greatest(0, extract(epoch from greatest(full_at, at) - at)) * 1000 * starts / per_ms
      + 0.0001)::int)
  end
$$;

-- When it will have one more than it gives now.
create function stokehold.token_at(full_at timestamptz, starts int, per_ms int, burst int) returns timestamptz
language sql immutable
as $$
  select full_at - (burst - 1) * (per_ms::float8 / starts) * interval '1 millisecond'
$$;

-- When a key may give its next job: null while too many run under it.
create function stokehold.key_opens_at(kind stokehold.kinds, permits stokehold.key_permits) returns timestamptz
language sql stable
as $$
  select case
    when permits.held >= kind.max_running_per_key then null
    when kind.key_rate_starts is null then clock_timestamp()
    else greatest(clock_timestamp(),
      stokehold.token_at(permits.full_at, kind.key_rate_starts, kind.key_rate_per_ms, kind.key_rate_burst))
  end
$$;

-- Says of a key from when on it may give its first waiting job, after that or its permits changed.
create function stokehold.reopen_key(kind stokehold.kinds, key text) returns void
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  first smallint;
begin
  select priority into first from parked
    where kind_id = kind.id and key = reopen_key.key order by priority, position limit 1;
  update key_permits permits set
    next_priority = coalesce(first, next_priority),
    opens_at = case when first is not null then key_opens_at(kind, permits) end
    where kind_id = kind.id and key = reopen_key.key;
end
$$;

-- Reckons the permits of a kind that came back. The caller holds the lock of the row that it gives.
-- Index: freed_permits_by_kind, from where all before was read 20 s ago and more: entries of rows that are gone stay
-- while a snapshot is held. What a transaction frees that takes even longer is found when permits are counted.
create function stokehold.reckon_freed(kind stokehold.kinds, permits stokehold.kind_permits)
returns stokehold.kind_permits
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  freed record;
begin
  with gone as (
    delete from freed_permits where kind_id = kind.id and id > permits.freed_before returning id, key, running, held
  ), back as materialized (
    select key, sum(held)::int as held from gone where key is not null group by key
  ), found as materialized (
    -- One by one, and then by place: left to choose, a plan may go through all keys for each of these.
    select back.held, permits.place
    from back
    cross join lateral (
      select ctid as place from key_permits where kind_id = kind.id and key = back.key limit 1) permits
  ), keys as (
    update key_permits of_key set held = greatest(0, of_key.held - found.held)
      from found where of_key.ctid = found.place
      returning of_key.key
  )
  select (select sum(running) from gone)::int as running, (select max(id) from gone) as last,
      (select array_agg(key order by key) from keys) as keys
    into freed;
  if freed.last is not null then
    permits.running := greatest(0, permits.running - freed.running);
    permits.freed_to := greatest(permits.freed_to, freed.last);
    perform reopen_key(kind, back.key) from unnest(freed.keys) as back(key)
      where exists (select from parked where kind_id = kind.id and parked.key = back.key);
  end if;
  if permits.freed_then_at < clock_timestamp() - interval '20 s' then
    permits.freed_before := permits.freed_then;
    permits.freed_then := permits.freed_to;
    permits.freed_then_at := clock_timestamp();
  end if;
  return permits;
end
$$;

-- ---------------------------------------------------------------------------------------------
-- Claiming

-- Takes what waits for a key and may run, at most `most`, those keys first that have been open for longest.
create function stokehold.take_parked(kind stokehold.kinds, priority smallint, most int) returns bigint[]
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  open key_permits;
  now timestamptz := clock_timestamp();
  taken bigint[] := '{}';
  got bigint[];
  room int;
begin
  for open in
    select * from key_permits
    where kind_id = kind.id and next_priority = take_parked.priority and opens_at <= now
    order by opens_at limit most
  loop
    room := least(most - cardinality(taken), kind.max_running_per_key - open.held);
    room := tokens(open.full_at, kind.key_rate_starts, kind.key_rate_per_ms, kind.key_rate_burst, now, room);
    exit when most <= cardinality(taken);
    -- The job is locked as well, and passed by if somebody cancels or changes it.
    with first as materialized (
      select parked.ctid as place, job.id
      from parked
      cross join lateral (
        select id from jobs where id = parked.job_id and state = 'pending' limit 1 for update skip locked) job
      where kind_id = kind.id and key = open.key
      order by parked.priority, parked.position
      limit room
      for update of parked skip locked
    ), gone as (
      delete from parked where ctid = any(array(select place from first))
    ), freed as (
      update jobs set state = 'available' where id = any(array(select id from first)) returning id
    )
    select coalesce(array_agg(id), '{}') into got from freed;
    update key_permits set
      held = held + cardinality(got),
      full_at = case when kind.key_rate_starts is null then full_at else greatest(full_at, now)
        + cardinality(got) * (kind.key_rate_per_ms::float8 / kind.key_rate_starts) * interval '1 millisecond' end
      where kind_id = kind.id and key = open.key;
    perform reopen_key(kind, open.key);
    taken := taken || got;
  end loop;
  return taken;
end
$$;

-- Takes ready jobs of a lane whose key has room, at most `most`, and parks those whose key has none, in order: what
-- is parked once is not walked over again. Looks at 10,000 jobs at most and tells how far it came.
-- Jobs behind one of their key that waits wait behind it.
create function stokehold.take_keyed(
  kind stokehold.kinds, priority smallint, after_position bigint, most int,
  out taken bigint[], out reached bigint, out is_more boolean
)
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  now timestamptz := clock_timestamp();
  seen record;
  looked int := 0;
  page int;
begin
  taken := '{}';
  reached := after_position;
  is_more := true;
  while most > cardinality(taken) and looked < 10000 loop
    page := greatest(most - cardinality(taken), 100);
    with picked as materialized (
      select ready.job_id, ready.position, ready.ctid as place
      from ready
      where kind_id = kind.id and priority = take_keyed.priority and position > reached
      order by position limit page
      for update skip locked
    ), looked as materialized (
      -- A key that it holds already, it needs not get.
      select picked.*, case when job.holds_key then null else job.concurrency_key end as key
      from picked
      cross join lateral (select concurrency_key, holds_key from jobs where id = picked.job_id limit 1) job
    ), ranked as materialized (
      select *, row_number() over (partition by key order by position)::int as rank from looked
    ), judged as materialized (
      -- Each looks its key up by itself: as a join it was one of everything with everything, of 500 jobs in 19 ms.
      select ranked.*, permits.place as permits_place, ranked.key is null or ranked.rank <= case
          when exists (select from parked where kind_id = kind.id and key = ranked.key) then 0
          else tokens(permits.full_at, kind.key_rate_starts, kind.key_rate_per_ms, kind.key_rate_burst, now,
            least(ranked.rank, kind.max_running_per_key - coalesce(permits.held, 0))) end as may_run
      from ranked
      left join lateral (
        select held, full_at, ctid as place from key_permits
        where kind_id = kind.id and key = ranked.key limit 1) permits on true
    ), counted as materialized (
      select *, count(*) filter (where may_run) over (order by position) as nth from judged
    ), runs as materialized (
      select * from counted where may_run and nth <= most - cardinality(taken)
    ), waits as materialized (
      select counted.*, job.id from counted
      cross join lateral (
        select id from jobs where id = counted.job_id and state = 'available' limit 1 for update skip locked) job
      where not may_run and nth < most - cardinality(taken)
    ), gone as (
      delete from ready
      where ctid = any(array(select place from runs union all select place from waits))
    ), parked_jobs as (
      update jobs set state = 'pending' where id = any(array(select id from waits))
    ), parked_rows as (
      insert into parked (kind_id, key, priority, position, job_id)
      select kind.id, key, take_keyed.priority, position, job_id from waits order by position
    ), taken_of as materialized (
      select key, permits_place, count(*)::int as jobs,
        coalesce(count(*) * (kind.key_rate_per_ms::float8 / kind.key_rate_starts), 0) * interval '1 millisecond' as costs
      from runs where key is not null group by key, permits_place
    ), held_first as (
      insert into key_permits (kind_id, key, held, full_at)
      select kind.id, key, jobs, case when kind.key_rate_starts is null then '-infinity' else now + costs end
      from taken_of where permits_place is null
    ), held as (
      update key_permits permits set held = permits.held + taken_of.jobs,
        full_at = case when kind.key_rate_starts is null then permits.full_at
          else greatest(permits.full_at, now) + costs end
      from taken_of
      where permits.ctid = taken_of.permits_place
    )
    select (select count(*) from looked)::int as rows,
        (select coalesce(array_agg(job_id), '{}') from runs) as ids,
        (select array_agg(distinct key) from waits) as keys,
        -- Behind what was left for want of room nothing was decided.
        (select max(position) from counted where nth < most - cardinality(taken)
          or may_run and nth = most - cardinality(taken)) as last
      into seen;
    taken := taken || seen.ids;
    reached := coalesce(seen.last, reached);
    looked := looked + seen.rows;
    perform reopen_key(kind, waited.key) from unnest(seen.keys) as waited(key);
    if seen.rows < page then
      is_more := false;
      exit;
    end if;
  end loop;
end
$$;

-- As claim.sql, of kinds that have limits. Rows with an id are jobs. The others say of a lane in how many
-- milliseconds it may give more: at once where the lane was not asked for, or somebody else was at it. A lane of
-- which nothing is said has nothing, or gives more when a permit comes back.
-- Locks: the rows of kind_permits, passing by those that another claim has; under them those of keys and parked jobs;
-- the picked rows of ready; jobs that are parked or come from there, passing by those that others have.
create function stokehold.claim_limited(
  runner bigint, number bigint, kinds int[], priorities smallint[], after_positions bigint[], quotas int[],
  answered bigint[], queues text[]
) returns table (
  id bigint, kind_id int, priority smallint, "position" bigint, token bigint, attempt int,
  max_attempts smallint, snoozes smallint, lost smallint, media_type text, payload bytea,
  metadata jsonb, last_problem jsonb, enqueued_at timestamptz, run_at timestamptz, release int,
  options jsonb, expired boolean, again_ms int
)
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  most_urgent smallint;
  lane record;
  kind kinds;
  permits kind_permits;
  keyed record;
  now timestamptz;
  room int;
  wanted int;
  got bigint[];
  taken bigint[] := '{}';
  of_kinds int[] := '{}';
  made bigint;
begin
  if claim_limited.answered <> '{}' then
    delete from claims where runner_id = claim_limited.runner and number = any(claim_limited.answered);
  end if;
  if not exists (select from runners
      where id = claim_limited.runner and state = 'live' and lease_expires_at > clock_timestamp()) then
    return;
  end if;
  for lane in
    select asked.kind_id, asked.priority, asked.after_position, asked.quota,
      row_number() over (partition by asked.kind_id order by asked.priority) = 1 as is_first,
      row_number() over (partition by asked.kind_id order by asked.priority desc) = 1 as is_last
    from unnest(claim_limited.kinds, claim_limited.priorities, claim_limited.after_positions, claim_limited.quotas)
      as asked(kind_id, priority, after_position, quota)
    order by asked.kind_id, asked.priority
  loop
    if lane.is_first then
      permits := null;
      select * into kind from kinds
        where id = lane.kind_id and active_release is not null and limited
          and (claim_limited.queues is null or queue = any(claim_limited.queues))
          and (paused_until is null or paused_until <= clock_timestamp());
      continue when not found;
      select * into permits from kind_permits where kind_id = lane.kind_id for update skip locked;
      if not found then
        permits := null;
        kind_id := lane.kind_id; priority := lane.priority; again_ms := 2;
        return next;
        continue;
      end if;
      permits := reckon_freed(kind, permits);
      now := clock_timestamp();
      room := least(1000000, kind.max_running - permits.running);
      room := greatest(0, tokens(permits.full_at, kind.rate_starts, kind.rate_per_ms, kind.rate_burst, now, room));
    end if;
    continue when permits.kind_id is null;

    got := '{}';
    wanted := least(lane.quota, room);
    if wanted > 0 and kind.keyed then
      got := take_parked(kind, lane.priority, wanted);
      if wanted > cardinality(got) then
        keyed := take_keyed(kind, lane.priority, lane.after_position, wanted - cardinality(got));
        got := got || keyed.taken;
        if keyed.is_more and wanted > cardinality(got) then
          kind_id := lane.kind_id; priority := lane.priority; again_ms := 0;
        return next;
        end if;
      end if;
    elsif wanted > 0 then
      with picked as materialized (
        select ready.job_id, ready.ctid as place from ready
        where kind_id = lane.kind_id and priority = lane.priority and position > lane.after_position
        order by position limit wanted
        for update skip locked
      ), gone as (
        delete from ready where ctid = any(array(select place from picked))
      )
      select coalesce(array_agg(job_id), '{}') into got from picked;
    end if;
    if got <> '{}' then
      taken := taken || got;
      of_kinds := array_append(of_kinds, kind.id);
      room := room - cardinality(got);
      permits.running := permits.running + cardinality(got);
      if kind.rate_starts is not null then
        permits.full_at := greatest(permits.full_at, now)
          + cardinality(got) * (kind.rate_per_ms::float8 / kind.rate_starts) * interval '1 millisecond';
      end if;
    end if;

    if lane.is_last then
      update kind_permits set running = permits.running, full_at = permits.full_at, freed_to = permits.freed_to,
        freed_then = permits.freed_then, freed_before = permits.freed_before, freed_then_at = permits.freed_then_at
        where kind_id = kind.id;
      if room = 0 and kind.rate_starts is not null
          and (kind.max_running is null or kind.max_running > permits.running) then
        kind_id := lane.kind_id; priority := lane.priority;
        again_ms := greatest(1, ceil(extract(epoch from token_at(permits.full_at, kind.rate_starts, kind.rate_per_ms, kind.rate_burst) - now) * 1000))::int;
        return next;
      elsif room > 0 and kind.keyed then
        -- Keys whose first job is of a lane that was not asked for.
        select next_priority into most_urgent from key_permits
          where kind_id = kind.id and opens_at <= now order by next_priority limit 1;
        if found and most_urgent <> all(claim_limited.priorities) then
          kind_id := lane.kind_id; priority := most_urgent; again_ms := 0;
        return next;
        end if;
      end if;
    end if;
  end loop;
  if taken = '{}' then
    return;
  end if;

  -- The token is drawn after the look: see ClaimToken.
  insert into claims (runner_id, number, job_ids, permits_of)
    values (claim_limited.runner, claim_limited.number, taken,
      (select array_agg(distinct of_kind) from unnest(of_kinds) of_kind))
    returning token into made;
  return query
  select job.id, job.kind_id, job.priority, job.position, made, job.attempt + 1, job.max_attempts, job.snoozes,
    job.lost, job.media_type, job.payload, job.metadata, job.last_problem, job.enqueued_at, job.run_at,
    coalesce(job.pinned_release, (select active_release from kinds where id = job.kind_id)), job.options,
    coalesce(job.expires_at <= clock_timestamp(), false), null::int
  from unnest(taken) as ids(id)
  cross join lateral (select * from jobs where jobs.id = ids.id limit 1) job;
end
$$;

-- ---------------------------------------------------------------------------------------------
-- Counting

-- Counts the permits of a kind anew, from what runs and what waits with its key, and lets in whom they allow. Where
-- keys no longer matter, what waits for them is made ready, 10,000 at a time. True when it should be done again soon:
-- when there are more of these, or claims that were made before the kind had limits.
create function stokehold.recount_permits(kind_id int) returns boolean
language plpgsql
set search_path = stokehold, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  kind kinds;
  flagged int;
  freed int;
begin
  insert into kind_permits (kind_id) values (recount_permits.kind_id) on conflict do nothing;
  perform from kind_permits where kind_id = recount_permits.kind_id for update;
  select * into kind from kinds where id = recount_permits.kind_id;
  -- One statement sees who runs and which permits came back as of one moment.
  with gone as (
    delete from freed_permits where kind_id = recount_permits.kind_id
  ), runs as materialized (
    select claim.runner_id, claim.number, job.key, claim.permits_of
    from claims claim
    cross join unnest(claim.job_ids) as held(id)
    cross join lateral (
      select concurrency_key as key from jobs
      where id = held.id and kind_id = recount_permits.kind_id and token < claim.token and state = 'available'
      limit 1
    ) job
  ), flagged as (
    update claims claim set permits_of = array_append(coalesce(permits_of, '{}'), recount_permits.kind_id)
    where (runner_id, number) in (select runner_id, number from runs
        where not coalesce(recount_permits.kind_id = any(permits_of), false))
      and kind.limited
    returning 1
  ), held as (
    select key, count(*)::int as held from (
      select key from runs
      union all
      select concurrency_key from jobs job
      where kind_id = recount_permits.kind_id and holds_key
        and not exists (select from claims claim where job.id = any(claim.job_ids) and claim.token > job.token
          and job.state = 'available' and not exists (select from ready
            where kind_id = job.kind_id and priority = job.priority and position = job.position))
    ) held where key is not null group by key
  ), keys as (
    insert into key_permits as permits (kind_id, key, held)
    select recount_permits.kind_id, key, held from held
    on conflict (kind_id, key) do update set held = excluded.held
  ), others as (
    update key_permits set held = 0
    where kind_id = recount_permits.kind_id and held > 0 and key not in (select key from held)
  ), total as (
    update kind_permits set running = (select count(*) from runs) where kind_id = recount_permits.kind_id
  )
  select count(*) into flagged from flagged;
  delete from key_permits permits
    where kind_id = recount_permits.kind_id and held = 0 and full_at <= clock_timestamp()
      and not exists (select from parked where kind_id = permits.kind_id and key = permits.key);
  update key_permits permits set opens_at = null
    where kind_id = recount_permits.kind_id and opens_at is not null
      and not exists (select from parked where kind_id = permits.kind_id and key = permits.key);
  if kind.keyed then
    insert into key_permits (kind_id, key) select distinct kind_id, key from parked
      where kind_id = recount_permits.kind_id on conflict do nothing;
    perform reopen_key(kind, waiting.key) from (
      select distinct key from parked where kind_id = recount_permits.kind_id) waiting;
    return flagged > 0;
  end if;
  with first as materialized (
    select parked.ctid as place, job.id from parked
    cross join lateral (
      select id from jobs where id = parked.job_id and state = 'pending' limit 1 for update skip locked) job
    where kind_id = recount_permits.kind_id
    order by key, priority, position limit 10000
    for update of parked skip locked
  ), gone as (
    delete from parked where ctid = any(array(select place from first))
  ), freed as (
    update jobs set state = 'available', position = nextval('positions')
    where id = any(array(select id from first)) returning id, kind_id, priority, position
  ), queued as (
    insert into ready (kind_id, priority, position, job_id)
    select kind_id, priority, position, id from freed
  )
  select count(*) into freed from freed;
  return flagged > 0 or freed > 0;
end
$$;

-- Counts those kinds anew for which it is time, and says of how many.
create function stokehold.recount_due() returns int
language plpgsql
set search_path = stokehold, pg_temp
as $$
declare
  due int;
  done int := 0;
begin
  for due in
    select id from kinds where recount_at <= clock_timestamp() order by id limit 10 for no key update skip locked
  loop
    update kinds set recount_at = case when recount_permits(due) then clock_timestamp() + interval '3 s' end
      where id = due;
    done := done + 1;
  end loop;
  if done > 0 and exists (select from sleepers) then
    perform pg_notify('stokehold_wake', '');
  end if;
  return done;
end
$$;
create index jobs_holding on stokehold.jobs (kind_id) where holds_key;
