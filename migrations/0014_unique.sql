-- Enqueueing with options: unique jobs among them, and requests that can be repeated.
-- Safe beside servers of the version before, whose calls mean what they meant.
-- Locks: none that matter, functions are made.

-- Jobs that have been found right, under these ids; a row whose id is null is left out. Tells waiting runners.
create function stokehold.make_jobs(
  ids bigint[], kinds text[], payloads bytea[], media_types text[], run_ats timestamptz[], priorities int[],
  max_attempts int[], metadatas jsonb[], options jsonb[]
) returns void
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  hint text;
begin
  insert into lanes (kind_id, priority)
    select distinct k.id, coalesce(r.priority, k.priority)::smallint
    from unnest(make_jobs.kinds, make_jobs.priorities) as r(kind, priority)
    join kinds k on k.name = r.kind
    where not exists (select from lanes l
      where l.kind_id = k.id and l.priority = coalesce(r.priority, k.priority)::smallint);

  with made as (
    insert into jobs (id, kind_id, state, priority, position, run_at, max_attempts, media_type, payload, metadata,
      options, expires_at, concurrency_key, pinned_release)
    overriding system value
    select r.id, k.id,
      case when r.run_at > clock_timestamp() then 'scheduled' else 'available' end::job_state,
      coalesce(r.priority, k.priority)::smallint,
      case when r.run_at > clock_timestamp() then null else nextval('positions') end,
      coalesce(r.run_at, clock_timestamp()),
      coalesce(r.max_attempts, k.max_attempts)::smallint,
      nullif(r.media_type, 'application/json'),
      r.payload,
      r.metadata,
      r.option,
      (r.option ->> 'expires_at')::timestamptz,
      r.option ->> 'concurrency_key',
      (r.option -> 'release')::int
    from unnest(make_jobs.ids, make_jobs.kinds, make_jobs.payloads, make_jobs.media_types, make_jobs.run_ats,
        make_jobs.priorities, make_jobs.max_attempts, make_jobs.metadatas, make_jobs.options)
      with ordinality as r(id, kind, payload, media_type, run_at, priority, max_attempts, metadata, option, n)
    join kinds k on k.name = r.kind
    where r.id is not null
    order by r.n
    returning id, kind_id, priority, position
  )
  insert into ready (kind_id, priority, position, job_id)
    select kind_id, priority, position, id from made where position is not null;

  -- A hint, and only for someone who waits for it: see the sleepers table. It names the lanes when
  -- they are few and all jobs may run at once; when it is empty the runner looks for itself.
  if exists (select from sleepers) then
    if cardinality(make_jobs.kinds) <= 100 then
      select string_agg(distinct k.id || ':' || coalesce(r.priority, k.priority), ',')
        into hint
        from unnest(make_jobs.kinds, make_jobs.priorities) as r(kind, priority)
        join kinds k on k.name = r.kind
        -- One that is due later: the runner has to learn when.
        where not exists (select from unnest(make_jobs.run_ats) t where t > clock_timestamp());
    end if;
    perform pg_notify('stokehold_wake', coalesce(hint, ''));
  end if;
end
$$;

-- Refuses options that are wrong in words that say of which job and why.
create function stokehold.refuse_wrong_options(
  kinds text[], payloads bytea[], media_types text[], options jsonb[]
) returns void
language plpgsql stable
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  wish record;
  wrong text;
begin
  for wish in
    select r.n, r.kind, r.payload, r.media_type, r.option
    from unnest(refuse_wrong_options.kinds, refuse_wrong_options.payloads, refuse_wrong_options.media_types,
      refuse_wrong_options.options) with ordinality as r(kind, payload, media_type, option, n)
    where r.option is not null
    order by r.n
  loop
    wrong := wrong_option(wish.option);
    if wrong is not null then
      raise exception 'job %: %', wish.n, wrong using errcode = 'SH422';
    end if;
    if wish.option ? 'release' and not exists (select from releases
        where kind_id = (select id from kinds where name = wish.kind) and number = (wish.option -> 'release')::int) then
      raise exception 'job %: kind % has no release %', wish.n, quote_literal(wish.kind), wish.option -> 'release'
        using errcode = 'SH422', hint = 'List its releases to see which there are.';
    end if;
    if wish.option -> 'unique' ? 'fields' and (coalesce(wish.media_type, 'application/json') !~* '^[^;]*[/+]json *(;|$)'
        or unique_key(wish.option -> 'unique', wish.payload) is null) then
      raise exception 'job %: unique.fields needs a payload of JSON', wish.n
        using errcode = 'SH422', hint = 'Give unique.key instead.';
    end if;
  end loop;
end
$$;

-- Takes a key of a kind for a new job, or answers which job holds it. Whoever asks at the same time waits for
-- the other's transaction.
create function stokehold.take_key(
  kind_id int, key text, job bigint, states job_state[], held_until timestamptz
) returns bigint
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  held unique_keys;
  state_now job_state;
begin
  loop
    insert into unique_keys (kind_id, key, job_id, states, held_until)
      values (take_key.kind_id, take_key.key, take_key.job, take_key.states, take_key.held_until)
      on conflict do nothing;
    if found then
      return take_key.job;
    end if;
    select * into held from unique_keys where kind_id = take_key.kind_id and key = take_key.key for update;
    -- Else swept in between.
    exit when found;
  end loop;
  if held.held_until > clock_timestamp() then
    return held.job_id;
  end if;
  -- A job goes from jobs to history in one transaction, and one statement sees it in one of them.
  -- An available job whose ready row is gone has been claimed.
  select coalesce(
      (select case when state = 'available' and not exists (select from ready
            where kind_id = job.kind_id and priority = job.priority and position = job.position)
          then 'running' else state end
        from jobs job where id = held.job_id),
      (select state from job_history where id = held.job_id order by token desc limit 1))
    into state_now;
  if state_now = any(coalesce(held.states, '{scheduled,available,running,retryable,pending}')) then
    return held.job_id;
  end if;
  update unique_keys
    set job_id = take_key.job, states = take_key.states, held_until = take_key.held_until
    where kind_id = take_key.kind_id and key = take_key.key;
  return take_key.job;
end
$$;

-- Who may call what is made anew.
create temporary table callers on commit drop as
  select distinct case when acl.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end as name
  from pg_proc made, aclexplode(made.proacl) acl
  where made.pronamespace = 'stokehold'::regnamespace and made.proname like 'enqueue%'
    and acl.grantee <> made.proowner;

drop function stokehold.enqueue_many(text[], bytea[], text[], timestamptz[], int[], int[], jsonb[]);
-- Enqueues many jobs at once: for each, in the same order, an id and `inserted`; or, where a job has a unique key
-- that another holds, that one's id and `existing` or `replaced`. Arrays other than `kinds` and `payloads` may be
-- null, and so may their elements: the kind's policy decides then. All of it or nothing.
create function stokehold.enqueue_many(
  kinds text[],
  payloads bytea[],
  media_types text[] default null,
  run_ats timestamptz[] default null,
  priorities int[] default null,
  max_attempts int[] default null,
  metadatas jsonb[] default null,
  options jsonb[] default null
) returns table (id bigint, answer text)
language plpgsql security definer
set search_path = stokehold, pg_temp
-- Planned once for each session, whatever the session is set to: planning took four times as long as
-- enqueueing one job. Through indexes, so that the plan is right however many kinds there come to be.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  made bigint[];
  ids bigint[];
  said jsonb[];
  answers text[];
  wish record;
  holder bigint;
  edited text;
begin
  -- What array_agg makes of no rows.
  if enqueue_many.kinds is null and enqueue_many.payloads is null then
    return;
  end if;
  perform refuse_wrong_jobs(enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types,
    enqueue_many.run_ats, enqueue_many.priorities, enqueue_many.max_attempts, enqueue_many.metadatas);
  select array_agg(nextval('jobs_id_seq')) into made from generate_series(1, cardinality(enqueue_many.kinds));
  if enqueue_many.options is null then
    perform make_jobs(made, enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types,
      enqueue_many.run_ats, enqueue_many.priorities, enqueue_many.max_attempts, enqueue_many.metadatas, null);
    return query select job, 'inserted' from unnest(made) as job;
    return;
  end if;

  -- Null says nothing.
  select array_agg(nullif(jsonb_strip_nulls(r.option), '{}') order by r.n) into said
    from unnest(enqueue_many.options) with ordinality as r(option, n);
  perform refuse_wrong_options(enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types, said);
  ids := made;
  answers := array_fill('inserted'::text, array[cardinality(made)]);
  -- Keys that nobody has are taken together; in order, as by everybody who takes several.
  with wishes as materialized (
    select k.id as kind_id, unique_key(r.option -> 'unique', r.payload) as key, r.job, r.n, r.option -> 'unique' as wish
    from unnest(made, enqueue_many.kinds, enqueue_many.payloads, said)
      with ordinality as r(job, kind, payload, option, n)
    join kinds k on k.name = r.kind
    where r.option ? 'unique'
  ), won as (
    insert into unique_keys (kind_id, key, job_id, states, held_until)
    select kind_id, key, job, key_states(wish), key_held_until(wish)
    from wishes order by kind_id, key collate "C", n
    on conflict do nothing
    returning job_id
  )
  select array_agg(case when w.job is null or won.job_id is not null then r.job end order by r.n)
    into made
    from unnest(made) with ordinality as r(job, n)
    left join wishes w on w.job = r.job
    left join won on won.job_id = r.job;
  perform make_jobs(made, enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types,
    enqueue_many.run_ats, enqueue_many.priorities, enqueue_many.max_attempts, enqueue_many.metadatas, said);
  if array_position(made, null) is null then
    return query select job, 'inserted' from unnest(made) as job;
    return;
  end if;

  for wish in
    select r.n, k.id as kind_id, unique_key(r.option -> 'unique', r.payload) as key, r.job, r.kind, r.payload,
      r.media_type, r.run_at, r.priority, r.max_attempts, r.metadata, r.option,
      coalesce(r.option -> 'unique' ->> 'mode', 'existing') as mode
    from unnest(ids, made, enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types,
        enqueue_many.run_ats, enqueue_many.priorities, enqueue_many.max_attempts, enqueue_many.metadatas, said)
      with ordinality as r(job, made, kind, payload, media_type, run_at, priority, max_attempts, metadata, option, n)
    join kinds k on k.name = r.kind
    where r.made is null
    order by k.id, unique_key(r.option -> 'unique', r.payload) collate "C", r.n
  loop
    holder := take_key(wish.kind_id, wish.key, wish.job, key_states(wish.option -> 'unique'),
      key_held_until(wish.option -> 'unique'));
    if holder = wish.job then
      perform make_jobs(array[wish.job], array[wish.kind], array[wish.payload], array[wish.media_type],
        array[wish.run_at], array[wish.priority], array[wish.max_attempts], array[wish.metadata],
        array[wish.option]);
      continue;
    end if;
    if wish.mode = 'reject' then
      raise exception 'job %: job % of kind % has the unique key already', wish.n, holder, quote_literal(wish.kind)
        using errcode = 'SH409', hint = 'Say mode existing to be given that job instead.', detail = holder::text;
    end if;
    ids[wish.n] := holder;
    answers[wish.n] := 'existing';
    if wish.mode in ('replace', 'debounce') then
      edited := edit_job(holder, case when wish.mode = 'debounce' then coalesce(wish.run_at, clock_timestamp()) end,
        wish.priority, null, wish.payload, coalesce(wish.media_type, 'application/json'), wish.metadata,
        (wish.option -> 'release')::int);
      -- Else it runs or has ended meanwhile, and stays as it is.
      if edited = 'edited' then
        answers[wish.n] := 'replaced';
      end if;
    end if;
  end loop;
  return query select r.id, r.answer from unnest(ids, answers) with ordinality as r(id, answer, n) order by r.n;
end
$$;

create function stokehold.key_states(wish jsonb) returns stokehold.job_state[]
language sql immutable
set search_path = stokehold, pg_temp
as $$
  select case when wish ? 'states' then
    array(select said::job_state from jsonb_array_elements_text(wish -> 'states') said) end
$$;

create function stokehold.key_held_until(wish jsonb) returns timestamptz
language sql volatile
as $$
  select clock_timestamp() + (wish -> 'for_ms')::bigint * interval '1 millisecond'
$$;

-- Enqueues one job with a JSON payload and returns its id, or that of the job it is a duplicate of.
drop function stokehold.enqueue(text, jsonb, timestamptz, int, int, jsonb);
create function stokehold.enqueue(
  kind text,
  payload jsonb default '{}',
  run_at timestamptz default null,
  priority int default null,
  max_attempts int default null,
  metadata jsonb default null,
  options jsonb default null
) returns bigint
language sql security definer
set search_path = stokehold, pg_temp
as $$
  select id from stokehold.enqueue_many(array[kind], array[convert_to(payload::text, 'UTF8')], null,
    array[run_at], array[priority], array[max_attempts], array[metadata],
    case when options is not null then array[options] end)
$$;

-- Enqueues one job whose payload is bytes of the given media type and returns its id, as above.
drop function stokehold.enqueue_bytes(text, bytea, text, timestamptz, int, int, jsonb);
create function stokehold.enqueue_bytes(
  kind text,
  payload bytea,
  media_type text,
  run_at timestamptz default null,
  priority int default null,
  max_attempts int default null,
  metadata jsonb default null,
  options jsonb default null
) returns bigint
language sql security definer
set search_path = stokehold, pg_temp
as $$
  select id from stokehold.enqueue_many(array[kind], array[payload], array[media_type],
    array[run_at], array[priority], array[max_attempts], array[metadata],
    case when options is not null then array[options] end)
$$;

-- As enqueue_many, for a request that may be repeated under its key: again, it answers what it came to the first
-- time and makes nothing. With the caller's rights on the tables, which those of the API have.
create function stokehold.enqueue_once(
  scope text, key text, request bytea,
  kinds text[], payloads bytea[], media_types text[], run_ats timestamptz[], priorities int[], max_attempts int[],
  metadatas jsonb[], options jsonb[]
) returns table (id bigint, answer text, repeated boolean)
language plpgsql
set search_path = stokehold, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  before idempotency_keys;
begin
  loop
    insert into idempotency_keys (scope, key, request, job_ids, answers)
      values (enqueue_once.scope, enqueue_once.key, enqueue_once.request, '{}', '{}')
      on conflict do nothing;
    if found then
      return query
        with made as materialized (
          select made.id, made.answer, n
          from enqueue_many(enqueue_once.kinds, enqueue_once.payloads, enqueue_once.media_types,
            enqueue_once.run_ats, enqueue_once.priorities, enqueue_once.max_attempts, enqueue_once.metadatas,
            enqueue_once.options) with ordinality as made(id, answer, n)
        ), kept as (
          update idempotency_keys set
            job_ids = (select array_agg(made.id order by n) from made),
            answers = (select array_agg(made.answer order by n) from made)
          where scope = enqueue_once.scope and key = enqueue_once.key
        )
        select made.id, made.answer, false from made order by n;
      return;
    end if;
    select * into before from idempotency_keys
      where scope = enqueue_once.scope and key = enqueue_once.key for update;
    continue when not found;
    if before.made_at < clock_timestamp() - interval '7 days' then
      delete from idempotency_keys where scope = enqueue_once.scope and key = enqueue_once.key;
      continue;
    end if;
    if before.request <> enqueue_once.request then
      raise exception 'the idempotency key % was used for another request', quote_literal(enqueue_once.key)
        using errcode = 'SH409', hint = 'Use a new key for each request, and repeat a request as it was.';
    end if;
    return query select r.id, r.answer, true
      from unnest(before.job_ids, before.answers) with ordinality as r(id, answer, n) order by r.n;
    return;
  end loop;
end
$$;

-- Whoever could enqueue until now still can.
revoke execute on function stokehold.enqueue, stokehold.enqueue_bytes, stokehold.enqueue_many from public;
do $$
declare
  caller text;
begin
  for caller in select name from callers loop
    execute format('grant execute on function stokehold.enqueue, stokehold.enqueue_bytes, '
      'stokehold.enqueue_many to %s', caller);
  end loop;
end
$$;
