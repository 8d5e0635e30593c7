-- A runner can be told to stop in order, from anywhere: it learns so with its next beat.
-- Safe beside nodes of the version before, which go on: stop those with SIGTERM.
-- Locks: ACCESS EXCLUSIVE on runners for a new column, short.

alter table stokehold.runners add column drain_at timestamptz;
