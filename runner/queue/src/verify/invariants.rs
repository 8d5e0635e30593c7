//! What has to hold in every state of the database that anybody can see.
//!
//! Each is one statement that gives the ids of what breaks it. All are asked in one snapshot, in which whatever others
//! are doing is done or not begun: so a busy database breaks none of them. Ages are reckoned from the snapshot's time,
//! however long the checks take.

/// Something that has to hold.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// A short name that stays.
    pub name: &'static str,
    /// What has to hold, in words.
    pub says: &'static str,
    /// Gives the ids of what breaks it, as text; `$1` is how many days of history are looked at.
    pub(super) sql: &'static str,
}

macro_rules! held {
    ($select:literal) => {
        concat!(
            "with held as materialized (select id, claim.token from stokehold.claims claim ",
            "cross join unnest(job_ids) as held(id)) ",
            $select
        )
    };
}

/// All of them.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "job.live-and-ended",
        says: "a job that has ended lives no more",
        sql: "select id::text from stokehold.jobs job
              where exists (select from stokehold.job_history where id = job.id)",
    },
    Invariant {
        name: "job.one-outcome",
        says: "a job has one outcome (of the newest days)",
        sql: "select id::text from stokehold.job_history
              where finished_at > now() - $1 * interval '1 day'
              group by id having count(*) > 1",
    },
    Invariant {
        name: "job.somewhere",
        says: "an available job is ready, or a claim holds it",
        sql: held!(
            "select id::text from stokehold.jobs job
             where state = 'available'
               and not exists (select from stokehold.ready where kind_id = job.kind_id
                 and priority = job.priority and position = job.position and job_id = job.id)
               and not exists (select from held where held.id = job.id and held.token > job.token)"
        ),
    },
    Invariant {
        name: "job.held-once",
        says: "no two claims hold the same job",
        sql: held!(
            "select job.id::text from stokehold.jobs job join held on held.id = job.id and held.token > job.token
             group by job.id having count(*) > 1"
        ),
    },
    Invariant {
        name: "job.kind",
        says: "a job is of a kind that there is",
        sql: "select id::text from stokehold.jobs job
              where not exists (select from stokehold.kinds where id = job.kind_id)",
    },
    Invariant {
        name: "job.options",
        says: "what a job says about itself stands in its columns",
        sql: "select id::text from stokehold.jobs
              where expires_at is distinct from (options ->> 'expires_at')::timestamptz
                or concurrency_key is distinct from options ->> 'concurrency_key'",
    },
    Invariant {
        name: "job.attempts",
        says: "no job had more attempts than it may have (of the newest days)",
        sql: "select id::text from stokehold.job_history
              where attempt > max_attempts and finished_at > now() - $1 * interval '1 day'",
    },
    Invariant {
        name: "attempt.once",
        says: "an attempt is recorded once (of the newest days)",
        sql: "select job_id::text from stokehold.job_attempts
              where finished_at > now() - $1 * interval '1 day'
              group by job_id, token having count(*) > 1",
    },
    Invariant {
        name: "attempt.before",
        says: "no attempt of a job is newer than its outcome (of the newest days)",
        sql: "select attempt.job_id::text from stokehold.job_attempts attempt
              join stokehold.job_history ended on ended.id = attempt.job_id and ended.token < attempt.token
              where attempt.finished_at > now() - $1 * interval '1 day'",
    },
    Invariant {
        name: "ready.job",
        says: "a ready row is that of an available job, in its place",
        sql: "select job_id::text from stokehold.ready
              where not exists (select from stokehold.jobs job where id = ready.job_id and state = 'available'
                and job.kind_id = ready.kind_id and job.priority = ready.priority
                and job.position = ready.position)",
    },
    Invariant {
        name: "ready.once",
        says: "a job is ready once",
        sql: "select job_id::text from stokehold.ready group by job_id having count(*) > 1",
    },
    Invariant {
        name: "ready.not-held",
        says: "what is ready, no claim holds",
        sql: held!(
            "select ready.job_id::text from stokehold.ready
             join stokehold.jobs job on job.id = ready.job_id
             join held on held.id = job.id and held.token > job.token"
        ),
    },
    Invariant {
        name: "ready.lane",
        says: "the lane of what is ready is known",
        sql: "select distinct kind_id || '/' || priority from stokehold.ready
              where not exists (select from stokehold.lanes lane
                where lane.kind_id = ready.kind_id and lane.priority = ready.priority)",
    },
    Invariant {
        name: "sequence.drawn",
        says: "no position, token or id is beyond those that were drawn",
        sql: "select 'position ' || position from stokehold.ready
                where position > (select last_value from stokehold.positions)
              union all select 'token ' || token from stokehold.claims
                where token > (select last_value from stokehold.claim_tokens)
              union all select 'token ' || token from stokehold.jobs
                where token > (select last_value from stokehold.claim_tokens)
              union all select 'job ' || id from stokehold.jobs
                where id > (select last_value from stokehold.jobs_id_seq)",
    },
    Invariant {
        name: "claim.runner",
        says: "a claim is of a runner that is known, and that lives or ended within the last minute",
        sql: "select distinct claim.runner_id::text from stokehold.claims claim
             left join stokehold.runners runner on runner.id = claim.runner_id
             where exists (select from unnest(claim.job_ids) as took(id)
                 join stokehold.jobs job on job.id = took.id where job.token < claim.token)
               and (runner.id is null
                 or coalesce(runner.ended_at, runner.lease_expires_at) < now() - interval '1 minute')",
    },
    Invariant {
        name: "cancel.job",
        says: "what is to be cancelled lives, or ended within the last minute",
        sql: "select job_id::text from stokehold.cancels
              where requested_at < now() - interval '1 minute'
                and not exists (select from stokehold.jobs where id = job_id)",
    },
    Invariant {
        name: "pause.kinds",
        says: "each kind is paused for as long as the pauses say",
        sql: "select name::text from stokehold.kinds kind
              where case when paused_until > now() then paused_until end
                is distinct from (select max(until) from stokehold.pauses pause
                  where until > now() and (scope = 'all' or (scope = 'queue' and pause.name = kind.queue)
                    or (scope = 'kind' and pause.name = kind.name)))",
    },
    Invariant {
        name: "retry.jobs",
        says: "what was retried has ended, and the new job is there or has ended",
        sql: "select of_job::text from stokehold.retries retry
              where exists (select from stokehold.jobs where id = retry.of_job)
                or retried_at > now() - $1 * interval '1 day'
                  and not exists (select from stokehold.jobs where id = retry.job_id)
                  and not exists (select from stokehold.job_history where id = retry.job_id)",
    },
    Invariant {
        name: "kind.release",
        says: "an active release is there",
        sql: "select name::text from stokehold.kinds kind
              where active_release is not null and not exists (select from stokehold.releases
                where kind_id = kind.id and number = kind.active_release)",
    },
    Invariant {
        name: "parked.job",
        says: "a job that waits for its key is pending, and known under it once",
        sql: "select job_id::text from stokehold.parked
              where not exists (select from stokehold.jobs job where id = parked.job_id and state = 'pending'
                and job.kind_id = parked.kind_id and job.concurrency_key = parked.key
                and job.priority = parked.priority and job.position = parked.position)
              union all select id::text from stokehold.jobs job where state = 'pending'
                and (select count(*) from stokehold.parked where job_id = job.id) <> 1",
    },
    Invariant {
        name: "permits.running",
        says: "a kind that has limits has as many permits out as jobs of it run",
        sql: "select kind.name::text from stokehold.kinds kind
              join stokehold.kind_permits permits on permits.kind_id = kind.id
              where kind.limited and kind.recount_at is null
                and permits.running <> (select count(*) from stokehold.claims claim
                    cross join unnest(claim.job_ids) as took(id)
                    join stokehold.jobs job on job.id = took.id and job.token < claim.token
                      and job.state = 'available'
                    where job.kind_id = kind.id and kind.id = any(claim.permits_of))
                  + (select coalesce(sum(running), 0) from stokehold.freed_permits where kind_id = kind.id)",
    },
    Invariant {
        name: "permits.keys",
        says: "a key has as many permits out as jobs of it run or hold it",
        sql: "select kind.name || ' ' || permits.key from stokehold.kinds kind
              join stokehold.key_permits permits on permits.kind_id = kind.id
              where kind.keyed and kind.recount_at is null
                and permits.held <> (select count(*) from stokehold.claims claim
                    cross join unnest(claim.job_ids) as took(id)
                    join stokehold.jobs job on job.id = took.id and job.token < claim.token
                      and job.state = 'available'
                    where job.kind_id = kind.id and job.concurrency_key = permits.key
                      and kind.id = any(claim.permits_of))
                  + (select count(*) from stokehold.jobs job
                    where job.kind_id = kind.id and job.concurrency_key = permits.key and job.holds_key
                      and not exists (select from stokehold.claims claim
                        where job.id = any(claim.job_ids) and claim.token > job.token
                          and job.state = 'available' and kind.id = any(claim.permits_of)))
                  + (select coalesce(sum(held), 0) from stokehold.freed_permits
                    where kind_id = kind.id and key = permits.key)",
    },
    Invariant {
        name: "idempotency.jobs",
        says: "a request that is remembered says what each of its jobs came to",
        sql: "select scope || ' ' || key from stokehold.idempotency_keys
              where cardinality(job_ids) = 0 or cardinality(job_ids) <> cardinality(answers)",
    },
];
