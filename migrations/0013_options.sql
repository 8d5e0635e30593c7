-- What a job may say beside its payload: that it is the only one with its key, until when it may start, tags, the
-- key by which it is limited, the release it is pinned to, its own backoff and timeout. Requests can be repeated.
-- Safe beside nodes of the version before: they run such jobs by the policy of the kind, late ones too, and leave
-- tags and keys out of the history.
-- Locks: ACCESS EXCLUSIVE on jobs, job_history and kinds for new columns, short: no row is written anew.

-- As enqueued, with what is null left out; null for a job that says nothing. Ended jobs keep it.
alter table stokehold.jobs
  add column options jsonb,
  -- Not started by then, it ends.
  add column expires_at timestamptz,
  -- What shares it runs a few at a time, by the kind's policy.
  add column concurrency_key text check (octet_length(concurrency_key) between 1 and 255);
alter table stokehold.job_history add column options jsonb;
create index jobs_expiring on stokehold.jobs (expires_at) where expires_at is not null;
create index jobs_tagged on stokehold.jobs using gin ((options -> 'tags')) where options ? 'tags';
create index job_history_tagged on stokehold.job_history using gin ((options -> 'tags')) where options ? 'tags';

-- How the delay grows from try to try; delays: one for each try, the last for all further ones.
alter table stokehold.kinds
  add column backoff_form text not null default 'exponential'
    check (backoff_form in ('exponential', 'linear', 'fixed', 'list')),
  add column backoff_delays_ms bigint[] check (cardinality(backoff_delays_ms) between 1 and 100),
  add column backoff_jitter_percent smallint not null default 50
    check (backoff_jitter_percent between 0 and 100),
  add constraint list_has_delays check ((backoff_form = 'list') = (backoff_delays_ms is not null));

-- Which job holds a key of its kind. Nothing is written when a job moves on: whether its holder still holds a
-- key is looked up by whoever wants it. What nobody holds is swept.
create table stokehold.unique_keys (
  kind_id int not null,
  key text not null check (octet_length(key) between 1 and 255),
  job_id bigint not null,
  -- In which the job holds it; null: in every one before its end.
  states stokehold.job_state[],
  -- It holds it until then in any case.
  held_until timestamptz,
  primary key (kind_id, key)
) with (
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_cost_delay = 0
);

-- Requests that may be repeated for a week, and what they came to.
create table stokehold.idempotency_keys (
  -- Whose keys these are.
  scope text not null check (octet_length(scope) <= 255),
  key text not null check (octet_length(key) between 1 and 255),
  -- sha256 of what was asked for.
  request bytea not null check (octet_length(request) = 32),
  job_ids bigint[] not null,
  answers text[] not null,
  made_at timestamptz not null default clock_timestamp(),
  primary key (scope, key)
);
create index idempotency_keys_by_age on stokehold.idempotency_keys (made_at);
-- When the fleet last swept both tables.
alter table stokehold.settings add column keys_swept_at timestamptz not null default clock_timestamp();

-- As before, and the options.
create or replace view stokehold.live_jobs as
select job.id, job.kind_id,
  case when claim.token is not null then 'running' else job.state end as state,
  job.priority, job.position, job.run_at, job.enqueued_at, claim.claimed_at as started_at,
  claim.runner_id, coalesce(claim.token, job.token) as token,
  -- This try while it runs; the tries that counted while it waits.
  (job.attempt + case when claim.token is not null then 1 else 0 end)::smallint as attempt,
  job.max_attempts, job.snoozes, job.lost, job.media_type, job.payload, job.metadata, job.last_problem,
  job.pinned_release, job.options
from stokehold.jobs job
left join lateral (
  select token, runner_id, claimed_at from stokehold.claims
  where job.state = 'available'
    and not exists (select from stokehold.ready
      where kind_id = job.kind_id and priority = job.priority and position = job.position)
    and job.id = any(job_ids) and token > job.token
  limit 1
) claim on true;

-- Why the options are wrong; null if they are not. What a member may be is told by the error.
create function stokehold.wrong_option(options jsonb) returns text
language plpgsql stable
set search_path = stokehold, pg_temp
as $$
declare
  name text;
  value jsonb;
  inner_name text;
begin
  if jsonb_typeof(options) <> 'object' then
    return 'options is not a JSON object';
  end if;
  if octet_length(options::text) > 16384 then
    return 'options is over 16384 bytes';
  end if;
  for name, value in select * from jsonb_each(options) loop
    case name
      when 'unique' then
        if jsonb_typeof(value) <> 'object' then
          return 'unique is not an object with key or fields';
        end if;
        for inner_name in select jsonb_object_keys(value) loop
          if inner_name not in ('key', 'fields', 'states', 'for_ms', 'mode') then
            return format('unique has no member %s: key, fields, states, for_ms and mode are known', inner_name);
          end if;
        end loop;
        if (value ? 'key') = (value ? 'fields') then
          return 'unique takes either a key or fields of the payload';
        end if;
        if value ? 'key' and (jsonb_typeof(value -> 'key') <> 'string'
            or octet_length(value ->> 'key') not between 1 and 255) then
          return 'unique.key is not a text of 1 to 255 bytes';
        end if;
        if value ? 'fields' and not is_texts(value -> 'fields', 20, 255) then
          return 'unique.fields is not a list of 1 to 20 paths such as customer or order.id';
        end if;
        if value ? 'states' and (not is_texts(value -> 'states', 8, 20) and value -> 'states' <> '[]'
            or exists (select from jsonb_array_elements_text(value -> 'states') said
              where said not in (select unnest(enum_range(null::job_state))::text))) then
          return 'unique.states is not a list of states of a job';
        end if;
        if value ? 'for_ms' and not is_whole(value -> 'for_ms', 1, 31536000000) then
          return 'unique.for_ms is not a whole number from 1 to 31536000000, a year';
        end if;
        if value -> 'states' = '[]' and not value ? 'for_ms' then
          return 'unique.states is empty, and so nothing is ever a duplicate without for_ms';
        end if;
        if value ->> 'mode' not in ('existing', 'reject', 'replace', 'debounce') then
          return 'unique.mode is none of existing, reject, replace and debounce';
        end if;
      when 'expires_at' then
        if jsonb_typeof(value) <> 'string' or not is_time(value #>> '{}') then
          return 'expires_at is not a time of the years 1 to 9999';
        end if;
      when 'tags' then
        if not is_texts(value, 20, 100) then
          return 'tags is not a list of 1 to 20 texts of 1 to 100 bytes';
        end if;
      when 'concurrency_key' then
        if jsonb_typeof(value) <> 'string' or octet_length(value #>> '{}') not between 1 and 255 then
          return 'concurrency_key is not a text of 1 to 255 bytes';
        end if;
      when 'release' then
        if not is_whole(value, 1, 2147483647) then
          return 'release is not the number of a release';
        end if;
      when 'timeout_ms' then
        if not is_whole(value, 1, 86400000) then
          return 'timeout_ms is not a whole number from 1 to 86400000, a day';
        end if;
      when 'backoff' then
        if jsonb_typeof(value) <> 'object' then
          return 'backoff is not an object';
        end if;
        for inner_name in select jsonb_object_keys(value) loop
          if inner_name not in ('form', 'base_ms', 'cap_ms', 'delays_ms', 'jitter_percent') then
            return format('backoff has no member %s: form, base_ms, cap_ms, delays_ms and jitter_percent are known',
              inner_name);
          end if;
        end loop;
        if value ->> 'form' not in ('exponential', 'linear', 'fixed', 'list') then
          return 'backoff.form is none of exponential, linear, fixed and list';
        end if;
        if (value ->> 'form' is not distinct from 'list') <> (value ? 'delays_ms') then
          return 'backoff.delays_ms goes with the form list, which needs it';
        end if;
        if value ? 'delays_ms' and (jsonb_typeof(value -> 'delays_ms') <> 'array'
            or jsonb_array_length(value -> 'delays_ms') not between 1 and 100
            or exists (select from jsonb_array_elements(value -> 'delays_ms') delay
              where not is_whole(delay, 0, 2592000000))) then
          return 'backoff.delays_ms is not a list of 1 to 100 whole numbers up to 2592000000, 30 days';
        end if;
        if value ? 'base_ms' and not is_whole(value -> 'base_ms', 0, 2592000000)
            or value ? 'cap_ms' and not is_whole(value -> 'cap_ms', 0, 2592000000) then
          return 'backoff.base_ms and backoff.cap_ms are whole numbers up to 2592000000, 30 days';
        end if;
        if value ? 'jitter_percent' and not is_whole(value -> 'jitter_percent', 0, 100) then
          return 'backoff.jitter_percent is not a whole number from 0 to 100';
        end if;
      else
        return format('there is no option %s: unique, expires_at, tags, concurrency_key, release, backoff and '
          'timeout_ms are known', quote_literal(name));
    end case;
  end loop;
  return null;
end
$$;

-- A list of 1 to `most` texts of 1 to `bytes` bytes.
create function stokehold.is_texts(value jsonb, most int, bytes int) returns boolean
language sql immutable
as $$
  select case when jsonb_typeof(value) <> 'array' then false else
    jsonb_array_length(value) between 1 and most
    and not exists (select from jsonb_array_elements(value) item
      where jsonb_typeof(item) <> 'string' or octet_length(item #>> '{}') not between 1 and bytes)
  end
$$;

create function stokehold.is_whole(value jsonb, lowest bigint, highest bigint) returns boolean
language sql immutable
as $$
  select case when jsonb_typeof(value) <> 'number' then false else
    (value #>> '{}')::numeric between lowest and highest
    and (value #>> '{}')::numeric = trunc((value #>> '{}')::numeric)
  end
$$;

create function stokehold.is_time(value text) returns boolean
language plpgsql stable
as $$
begin
  return value::timestamptz >= '0001-01-01 00:00Z' and value::timestamptz < '10000-01-01 00:00Z';
exception when data_exception then
  return false;
end
$$;

-- JSON as one text for all that are equal: members in order, which jsonb keeps, and 1.0 as 1.
create function stokehold.canonical_json(value jsonb) returns text
language plpgsql immutable
set search_path = stokehold, pg_temp
as $$
begin
  return case jsonb_typeof(value)
    when 'number' then trim_scale((value #>> '{}')::numeric)::text
    when 'object' then '{' || coalesce((select string_agg(to_json(member.key)::text || ':'
        || canonical_json(member.value), ',' order by member.key collate "C")
      from jsonb_each(value) member), '') || '}'
    when 'array' then '[' || coalesce((select string_agg(canonical_json(item), ',' order by n)
      from jsonb_array_elements(value) with ordinality as list(item, n)), '') || ']'
    else value::text
  end;
end
$$;

-- The key that a job is to be unique by: the one that is given, or the digest of the fields of its payload, of
-- which one that is missing differs from one that is null.
create function stokehold.unique_key(wish jsonb, payload bytea) returns text
language plpgsql immutable
set search_path = stokehold, pg_temp
as $$
declare
  input jsonb;
begin
  if wish ? 'key' then
    return wish ->> 'key';
  end if;
  input := convert_from(payload, 'UTF8')::jsonb;
  return 'sha256:' || encode(sha256(convert_to(
    (select string_agg(to_json(path)::text || coalesce('=' || canonical_json(input #> string_to_array(path, '.')), ''),
        ',' order by path collate "C")
      from jsonb_array_elements_text(wish -> 'fields') path), 'UTF8')), 'hex');
exception when data_exception then
  return null;
end
$$;
