-- The first schema: who may call, what may run, what waits and runs, and what has ended.
-- Locks: none that matter, everything is new.

create schema if not exists stokehold;

-- Lower-case names that are never a path and never markup; the rule of stokehold-domain's name.rs.
create domain stokehold.name as text
  constraint name_rule check (value ~ '^[a-z0-9][a-z0-9._-]{0,62}$');

create type stokehold.job_state as enum (
  'scheduled', 'available', 'running', 'retryable', 'pending',
  'completed', 'discarded', 'cancelled'
);

-- ---------------------------------------------------------------------------------------------
-- Keys

create table stokehold.api_keys (
  id bigint generated always as identity primary key,
  name stokehold.name not null,
  -- The public part of the key, by which it is found.
  prefix text not null unique check (prefix ~ '^[a-z0-9]{10}$'),
  -- sha256 of the secret part: 256 random bits need no slow hash.
  secret_hash bytea not null check (octet_length(secret_hash) = 32),
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz
);

-- ---------------------------------------------------------------------------------------------
-- What may run

create table stokehold.modules (
  digest bytea primary key check (octet_length(digest) = 32),
  bytes bytea not null,
  -- What admission found: ABI, imports, toolchain.
  report jsonb not null,
  created_at timestamptz not null default clock_timestamp()
);
-- Compiled wasm does not compress well enough to pay for it at every load.
alter table stokehold.modules alter column bytes set storage external;

create table stokehold.kinds (
  id int generated always as identity primary key,
  name stokehold.name not null unique,
  queue stokehold.name not null default 'default',
  priority smallint not null default 0 check (priority between -1000 and 1000),
  max_attempts smallint not null default 20 check (max_attempts between 1 and 1000),
  backoff_base_ms bigint not null default 1000 check (backoff_base_ms >= 0),
  backoff_cap_ms bigint not null default 3600000 check (backoff_cap_ms >= 0),
  -- Null until a release is activated; jobs wait till then.
  active_release int,
  created_at timestamptz not null default clock_timestamp()
);

create table stokehold.releases (
  kind_id int not null references stokehold.kinds,
  number int not null check (number > 0),
  digest bytea not null references stokehold.modules,
  limits jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (kind_id, number)
);
create index releases_by_digest on stokehold.releases (digest);

alter table stokehold.kinds add constraint active_release_exists
  foreign key (id, active_release) references stokehold.releases (kind_id, number);

-- ---------------------------------------------------------------------------------------------
-- Who runs it

create table stokehold.runners (
  id bigint generated always as identity primary key,
  name text not null check (octet_length(name) between 1 and 200),
  version text not null,
  -- Null serves every queue.
  queues text[],
  slots int not null check (slots > 0),
  state text not null default 'live' check (state in ('live', 'stopped', 'dead')),
  registered_at timestamptz not null default clock_timestamp(),
  beat_at timestamptz not null default clock_timestamp(),
  lease_expires_at timestamptz not null,
  ended_at timestamptz,
  -- The one job with losses behind it that this runner runs now; only its loss counts on.
  suspect_job bigint,
  constraint ended_runners_have_a_time check ((state = 'live') = (ended_at is null))
) with (fillfactor = 50);
create index runners_live on stokehold.runners (lease_expires_at) where state = 'live';

-- Runners that wait for work. Enqueueing notifies only while there is one, so that commits under load
-- never queue for the lock that NOTIFY takes. Unlogged: after a crash nobody sleeps.
create unlogged table stokehold.sleepers (
  runner_id bigint primary key
) with (fillfactor = 50);

-- ---------------------------------------------------------------------------------------------
-- Jobs that live

create sequence stokehold.positions;

create table stokehold.jobs (
  id bigint generated always as identity primary key,
  -- Drawn anew each time the row becomes available: first in, first out, and where a claim starts.
  position bigint,
  -- Grows at every claim and never goes back: the fence of every write.
  token bigint not null default 0,
  runner_id bigint,
  run_at timestamptz not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  -- No foreign keys on this table: their share locks cost more than they protect. Kinds are never
  -- deleted while a row here names them.
  kind_id int not null,
  state stokehold.job_state not null,
  priority smallint not null check (priority between -1000 and 1000),
  attempt smallint not null default 0 check (attempt >= 0),
  max_attempts smallint not null check (max_attempts between 1 and 1000),
  snoozes smallint not null default 0 check (snoozes >= 0),
  -- Nodes that died under it.
  lost smallint not null default 0 check (lost >= 0),
  -- Null is application/json.
  media_type text check (octet_length(media_type) <= 255),
  payload bytea not null check (octet_length(payload) <= 1048576),
  metadata jsonb,
  last_problem jsonb,
  constraint live_states_only
    check (state in ('scheduled', 'available', 'running', 'retryable', 'pending')),
  constraint running_has_an_owner
    check ((state = 'running') = (runner_id is not null) and (state = 'running') = (started_at is not null)),
  constraint available_has_a_position check (state <> 'available' or position is not null)
) with (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- A lane is a kind and a priority; a claim walks it from the runner's cursor.
create index jobs_lanes on stokehold.jobs (kind_id, priority, position) where state = 'available';
create index jobs_due on stokehold.jobs (run_at) where state in ('scheduled', 'retryable');
create index jobs_held on stokehold.jobs (runner_id) where state = 'running';

-- ---------------------------------------------------------------------------------------------
-- Jobs that have ended, and attempts that did not end one. Partitioned by day of ending, so that
-- retention drops a table and never deletes a row. The default partition takes what has no day, so
-- that a completion never fails for want of one.

create table stokehold.job_history (
  id bigint not null,
  token bigint not null,
  runner_id bigint,
  run_at timestamptz not null,
  enqueued_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz not null default clock_timestamp(),
  kind_id int not null,
  release int,
  state stokehold.job_state not null check (state in ('completed', 'discarded', 'cancelled')),
  priority smallint not null,
  attempt smallint not null,
  max_attempts smallint not null,
  snoozes smallint not null,
  lost smallint not null,
  outcome text not null,
  media_type text,
  payload bytea not null,
  metadata jsonb,
  result bytea,
  result_media_type text,
  problem jsonb,
  fuel bigint,
  wall_us bigint,
  peak_memory_bytes bigint,
  host_calls bigint
) partition by range (finished_at);
create index job_history_by_id on stokehold.job_history (id);
create table stokehold.job_history_default partition of stokehold.job_history default;

create table stokehold.job_attempts (
  job_id bigint not null,
  token bigint not null,
  runner_id bigint,
  started_at timestamptz not null,
  finished_at timestamptz not null default clock_timestamp(),
  release int,
  attempt smallint not null,
  outcome text not null,
  problem jsonb,
  fuel bigint,
  wall_us bigint,
  peak_memory_bytes bigint,
  host_calls bigint
) partition by range (finished_at);
create index job_attempts_by_job on stokehold.job_attempts (job_id);
create table stokehold.job_attempts_default partition of stokehold.job_attempts default;

-- One row for each flush of an attempt's log: an array of lines.
create table stokehold.job_logs (
  job_id bigint not null,
  token bigint not null,
  attempt smallint not null,
  started_at timestamptz,
  flushed_at timestamptz not null default clock_timestamp(),
  lines jsonb not null
) partition by range (flushed_at);
create index job_logs_by_job on stokehold.job_logs (job_id);
create table stokehold.job_logs_default partition of stokehold.job_logs default;

-- ---------------------------------------------------------------------------------------------
-- Settings that the database itself needs

create table stokehold.settings (
  only_row boolean primary key default true check (only_row),
  -- Days of history kept; partitions that are older are dropped.
  history_days int not null default 14 check (history_days between 1 and 3650)
);
insert into stokehold.settings default values;
