-- What claiming and looking need to stay as fast with a hundred million dead index entries as with none.
-- Stop the runners first: those of the version before do not write `claims`.
-- Locks: ACCESS EXCLUSIVE on jobs for the dropped index and on settings for the new column, both short.

-- Every kind and priority that ever had a job. A tick looks into each lane from where the node knows
-- that nothing can be left; finding the lanes in the index of jobs would walk over everything claimed
-- since the oldest snapshot.
create table stokehold.lanes (
  kind_id int not null,
  priority smallint not null,
  -- No job at or below this position is available, nor will one be.
  cleared bigint not null default 0
) with (fillfactor = 70);
-- Not unique: two transactions that open a lane together must not wait for each other, and a lane that
-- stands here twice is looked into once.
create index lanes_by_kind on stokehold.lanes (kind_id, priority);
insert into stokehold.lanes (kind_id, priority) select distinct kind_id, priority from stokehold.jobs;

-- What each claim took, until all of it is answered: how the jobs of a dead runner are found, and what
-- a claim came to whose commit was lost on the way. One row a claim instead of an index entry a job.
create table stokehold.claims (
  runner_id bigint not null,
  number bigint not null,
  job_ids bigint[] not null,
  primary key (runner_id, number)
) with (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
-- Ids in a row do not compress, and trying costs more than the bytes.
alter table stokehold.claims alter column job_ids set storage external;
insert into stokehold.claims
  select runner_id, 0, array_agg(id) from stokehold.jobs where state = 'running' group by runner_id;
drop index stokehold.jobs_held;

-- Grows whenever what nodes remember of kinds may have changed.
alter table stokehold.settings add column kinds_version bigint not null default 0;

create function stokehold.kinds_changed() returns trigger
language plpgsql
set search_path = stokehold, pg_temp
as $$
begin
  update settings set kinds_version = kinds_version + 1;
  return null;
end
$$;
create trigger kinds_changed after insert or update or delete on stokehold.kinds
  for each statement execute function stokehold.kinds_changed();

-- As before, and: it enters new lanes, and its notification says which lanes have work, so that a
-- waiting runner can claim without a look.
create or replace function stokehold.enqueue_many(
  kinds text[],
  payloads bytea[],
  media_types text[] default null,
  run_ats timestamptz[] default null,
  priorities int[] default null,
  max_attempts int[] default null,
  metadatas jsonb[] default null
) returns setof bigint
language plpgsql
set search_path = stokehold, pg_temp
as $$
#variable_conflict use_column
declare
  wrong record;
  wanted int := cardinality(enqueue_many.kinds);
  hint text;
begin
  -- What array_agg makes of no rows.
  if enqueue_many.kinds is null and enqueue_many.payloads is null then
    return;
  end if;
  if wanted is null or cardinality(enqueue_many.payloads) is distinct from wanted then
    raise exception 'enqueue_many: % kinds and % payloads', coalesce(wanted, 0),
      coalesce(cardinality(enqueue_many.payloads), 0)
      using errcode = 'SH422', hint = 'Give one payload for each kind.';
  end if;

  select r.n, r.kind, octet_length(r.payload) as payload_bytes,
      k.id is null as unknown_kind,
      r.payload is null as no_payload,
      r.priority not between -1000 and 1000 as bad_priority, r.priority,
      r.max_attempts not between 1 and 1000 as bad_attempts, r.max_attempts,
      jsonb_typeof(r.metadata) is distinct from 'object' and r.metadata is not null as bad_metadata,
      octet_length(r.metadata::text) > 16384 as big_metadata,
      -- Beyond these years lie times, infinity among them, that programs cannot read.
      r.run_at < '0001-01-01 00:00Z' or r.run_at >= '10000-01-01 00:00Z' as bad_run_at, r.run_at,
      octet_length(r.media_type) > 255 as long_media_type
    into wrong
    from unnest(enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types,
        enqueue_many.run_ats, enqueue_many.priorities, enqueue_many.max_attempts, enqueue_many.metadatas)
      with ordinality as r(kind, payload, media_type, run_at, priority, max_attempts, metadata, n)
    left join kinds k on k.name = r.kind
    where k.id is null or r.payload is null or octet_length(r.payload) > 1048576
      or r.priority not between -1000 and 1000 or r.max_attempts not between 1 and 1000
      or (jsonb_typeof(r.metadata) is distinct from 'object' and r.metadata is not null)
      or octet_length(r.metadata::text) > 16384
      or r.run_at < '0001-01-01 00:00Z' or r.run_at >= '10000-01-01 00:00Z'
      -- It becomes a header one day: the rule of stokehold-domain's blob.rs.
      or octet_length(r.media_type) > 255
      or r.media_type !~ '^ *[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+ *(;[ -~]*)?$'
    order by r.n limit 1;
  if found then
    case
      when wrong.unknown_kind then
        raise exception 'job %: there is no kind %', wrong.n, coalesce(quote_literal(wrong.kind), 'null')
          using errcode = 'SH404', hint = 'Create it first, or push a handler for it.';
      when wrong.no_payload then
        raise exception 'job %: the payload is null', wrong.n
          using errcode = 'SH422', hint = 'A job without input has an empty payload.';
      when wrong.payload_bytes > 1048576 then
        raise exception 'job %: the payload has % bytes; at most 1048576 are taken', wrong.n, wrong.payload_bytes
          using errcode = 'SH413', hint = 'Store the data elsewhere and enqueue a reference to it.';
      when wrong.bad_priority then
        raise exception 'job %: priority % is not within -1000 to 1000', wrong.n, wrong.priority
          using errcode = 'SH422', hint = 'Lower numbers run first; 0 is usual.';
      when wrong.bad_attempts then
        raise exception 'job %: max_attempts % is not within 1 to 1000', wrong.n, wrong.max_attempts
          using errcode = 'SH422';
      when wrong.bad_metadata then
        raise exception 'job %: metadata is not a JSON object', wrong.n using errcode = 'SH422';
      when wrong.big_metadata then
        raise exception 'job %: metadata is over 16384 bytes', wrong.n
          using errcode = 'SH413', hint = 'Put what the handler reads into the payload.';
      when wrong.bad_run_at then
        raise exception 'job %: run_at % is not within the years 1 to 9999', wrong.n, wrong.run_at
          using errcode = 'SH422', hint = 'Leave it out for a job that may run at once.';
      when wrong.long_media_type then
        raise exception 'job %: the media type is over 255 bytes', wrong.n using errcode = 'SH422';
      else
        raise exception 'job %: the media type has not the form type/subtype', wrong.n
          using errcode = 'SH422', hint = 'For example text/plain; charset=utf-8.';
    end case;
  end if;

  insert into lanes (kind_id, priority)
    select distinct k.id, coalesce(r.priority, k.priority)::smallint
    from unnest(enqueue_many.kinds, enqueue_many.priorities) as r(kind, priority)
    join kinds k on k.name = r.kind
    where not exists (select from lanes l
      where l.kind_id = k.id and l.priority = coalesce(r.priority, k.priority)::smallint);

  return query
    insert into jobs (kind_id, state, priority, position, run_at, max_attempts, media_type, payload, metadata)
    select k.id,
      case when r.run_at > clock_timestamp() then 'scheduled' else 'available' end::job_state,
      coalesce(r.priority, k.priority)::smallint,
      case when r.run_at > clock_timestamp() then null else nextval('positions') end,
      coalesce(r.run_at, clock_timestamp()),
      coalesce(r.max_attempts, k.max_attempts)::smallint,
      nullif(r.media_type, 'application/json'),
      r.payload,
      r.metadata
    from unnest(enqueue_many.kinds, enqueue_many.payloads, enqueue_many.media_types,
        enqueue_many.run_ats, enqueue_many.priorities, enqueue_many.max_attempts, enqueue_many.metadatas)
      with ordinality as r(kind, payload, media_type, run_at, priority, max_attempts, metadata, n)
    join kinds k on k.name = r.kind
    order by r.n
    returning id;

  -- A hint, and only for someone who waits for it: see the sleepers table. It names the lanes when
  -- they are few and all jobs may run at once; when it is empty the runner looks for itself.
  if exists (select from sleepers) then
    if wanted <= 100 then
      select string_agg(distinct k.id || ':' || coalesce(r.priority, k.priority), ',')
        into hint
        from unnest(enqueue_many.kinds, enqueue_many.run_ats, enqueue_many.priorities)
          as r(kind, run_at, priority)
        join kinds k on k.name = r.kind
        -- One that is due later: the runner has to learn when.
        where not exists (select from unnest(enqueue_many.run_ats) t where t > clock_timestamp());
    end if;
    perform pg_notify('stokehold_wake', coalesce(hint, ''));
  end if;
end
$$;
