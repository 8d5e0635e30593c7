//! The statements that meet, and where they do.

/// What jobs 1 and 2 are like before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Situation {
    /// Both wait for a claim.
    Ready,
    /// Both are held by claim 1 of runner 1, which lives.
    Held,
    /// The same, and its lease is over, which nobody has noticed yet.
    Over,
    /// The same, and it is marked dead.
    Lost,
    /// Both wait for a time that has come, and somebody wanted job 1 cancelled while it ran.
    Due,
    /// Job 1 is discarded, and job 2 waits for a claim.
    Ended,
}

use Situation::{Due, Ended, Held, Lost, Over, Ready};

impl Situation {
    pub(crate) const ALL: [Situation; 6] = [Ready, Held, Over, Lost, Due, Ended];

    /// Makes it, whatever was before.
    pub(crate) fn sql(self) -> String {
        let (jobs, more) = match self {
            Ready => (jobs("available", "1"), READY_ROWS.to_owned()),
            Held => (jobs("available", "1"), CLAIM.to_owned()),
            Over => (jobs("available", "1"), format!("{CLAIM}; {OVER}")),
            Lost => (jobs("available", "1"), format!("{CLAIM}; {DEAD}")),
            Due => (jobs("retryable", "null::bigint"), REQUEST.to_owned()),
            Ended => (jobs("available", "1"), format!("{READY_ROWS}; {FIRST_ENDED}")),
        };
        format!("{NOTHING}; {RUNNERS}; {jobs}; {more}")
    }
}

const NOTHING: &str = "
  delete from stokehold.jobs; delete from stokehold.ready; delete from stokehold.claims;
  delete from stokehold.job_history; delete from stokehold.job_attempts; delete from stokehold.cancels;
  delete from stokehold.retries; delete from stokehold.pauses; delete from stokehold.runners;
  update stokehold.kinds set paused_until = null where paused_until is not null;
  select setval('stokehold.positions', 10), setval('stokehold.claim_tokens', 11);
  alter table stokehold.jobs alter column id restart with 3";
const RUNNERS: &str = "
  insert into stokehold.runners (id, name, version, slots, lease_expires_at) overriding system value
  select id, 'runner', '0', 1, clock_timestamp() + interval '1 hour' from generate_series(1, 2) id";
const READY_ROWS: &str = "
  insert into stokehold.ready (kind_id, priority, position, job_id)
  select kind_id, priority, position, id from stokehold.jobs";
const CLAIM: &str = "
  insert into stokehold.claims (runner_id, number, token, job_ids) values (1, 1, 11, '{1,2}')";
const OVER: &str = "
  update stokehold.runners set lease_expires_at = clock_timestamp() - interval '1 minute' where id = 1";
const DEAD: &str = "
  update stokehold.runners set state = 'dead', ended_at = clock_timestamp() where id = 1";
const REQUEST: &str = "
  insert into stokehold.cancels (job_id, problem) values (1, '{}')";
const FIRST_ENDED: &str = "
  delete from stokehold.ready where job_id = 1;
  with ended as (delete from stokehold.jobs where id = 1 returning *)
  insert into stokehold.job_history (id, token, runner_id, run_at, enqueued_at, started_at, kind_id, state,
    priority, attempt, max_attempts, snoozes, lost, outcome, payload)
  select id, 11, 1, run_at, enqueued_at, run_at, kind_id, 'discarded', priority, 1, 1, 0, 0,
    'handler.permanent', payload from ended";

fn jobs(state: &str, position: &str) -> String {
    format!(
        "insert into stokehold.jobs (id, position, run_at, kind_id, state, priority, max_attempts, payload)
           overriding system value
         select id, {position} * id, clock_timestamp(), 1, '{state}', 0, 5, '{{}}'
         from generate_series(1, 2) id"
    )
}

/// Who runs a statement, from 1.
pub(crate) type Session = u8;

/// One of them.
pub(crate) struct Statement {
    pub(crate) name: &'static str,
    /// Where it meets others.
    pub(crate) situations: &'static [Situation],
    /// Of its answer, as many columns count.
    pub(crate) columns: usize,
    /// By which of the two sessions: claims of one runner have numbers of their own.
    pub(crate) sql: fn(Session) -> String,
}

/// The text of a statement with its parameters filled in.
fn filled(sql: &str, arguments: &[&str]) -> String {
    let numbered = arguments.iter().enumerate().rev();
    numbered.fold(sql.to_owned(), |sql, (place, argument)| {
        sql.replace(&format!("${}", place + 1), argument)
    })
}

const NULLS: &str = "array[null, null]";

/// A claim of both by a runner.
fn claim(runner: &str, session: Session) -> String {
    let text = include_str!("../../../src/sql/claim.sql");
    let number = (10 + session).to_string();
    filled(text, &[runner, &number, "'{1}'", "'{0}'", "'{0}'", "'{2}'", "'{}'", "null"])
}

/// Both completed, under claim 1 of runner 1.
fn finish() -> String {
    let states = "array['completed', 'completed']";
    let text = include_str!("../../../src/sql/finish.sql");
    filled(
        text,
        &[
            "1",
            "'{1,2}'",
            "'{11,11}'",
            "'{1,1}'",
            "'{1,1}'",
            states,
            "array['ok', 'ok']",
            NULLS,
            NULLS,
            NULLS,
            NULLS,
            NULLS,
            NULLS,
            NULLS,
        ],
    )
}

/// Both released, under the same.
fn release(state: &str, counted: &str, code: &str) -> String {
    let (states, codes) =
        (format!("array['{state}', '{state}']"), format!("array['{code}', '{code}']"));
    let text = include_str!("../../../src/sql/release.sql");
    filled(
        text,
        &[
            "1",
            "'{1,2}'",
            "'{11,11}'",
            "'{1,1}'",
            "'{1,1}'",
            &states,
            "'{3600000,3600000}'",
            counted,
            "'{t,t}'",
            &codes,
            NULLS,
            NULLS,
            NULLS,
            NULLS,
            NULLS,
        ],
    )
}

/// One completed and one claimed, by the function of runner 1.
fn turn(session: Session) -> String {
    let number = 10 + session;
    format!(
    "select settled_id, id from stokehold.turn(1, '{{1}}', '{{11}}', '{{1}}', '{{1}}', '{{completed}}', '{{ok}}',
       array[null]::bytea[], array[null], array[null], array[null]::bigint[], array[null]::bigint[],
       array[null]::bigint[], array[null]::bigint[], {number}, '{{1}}', '{{0}}', '{{0}}', '{{1}}', '{{}}', null)")
}

fn strays() -> String {
    let text = include_str!("../../../src/sql/strays.sql");
    filled(text, &["0", "100"]).replace("(select max(id) from page) as last, ", "")
}

fn edit(run_at: &str, priority: &str, max_attempts: &str) -> String {
    format!(
        "select stokehold.edit_job(1, {run_at}, {priority}, {max_attempts}, null, null, null, null)"
    )
}

fn cancel(jobs: &str) -> String {
    format!("select stokehold.cancel_job(id, '{{}}') from unnest('{jobs}'::bigint[]) as id")
}

/// Every statement of the protocol. A new one stands here, and meets all the others.
pub(crate) const STATEMENTS: &[Statement] = &[
    Statement {
        name: "claim",
        situations: &[Ready, Held, Over, Lost, Due, Ended],
        columns: 1,
        sql: |session| claim("2", session),
    },
    // By the runner that is dead, or whose lease is over.
    Statement {
        name: "claim of the first runner",
        situations: &[Ready, Over, Lost],
        columns: 1,
        sql: |session| claim("1", session),
    },
    Statement { name: "turn", situations: &[Ready, Held, Over, Lost], columns: 2, sql: turn },
    Statement {
        name: "finish",
        situations: &[Held, Over, Lost, Ended],
        columns: 1,
        sql: |_| finish(),
    },
    Statement {
        name: "release to try again",
        situations: &[Held, Lost],
        columns: 1,
        sql: |_| release("retryable", "'{t,t}'", "handler.retry"),
    },
    Statement {
        name: "hand back",
        situations: &[Held, Lost],
        columns: 1,
        sql: |_| release("available", "'{f,f}'", "node.draining"),
    },
    Statement {
        name: "mark dead",
        situations: &[Held, Over, Lost],
        columns: 1,
        sql: |_| filled(include_str!("../../../src/sql/expire.sql"), &["10"]),
    },
    Statement {
        name: "beat",
        situations: &[Held, Over, Lost],
        columns: 1,
        sql: |_| {
            "update stokehold.runners set lease_expires_at = clock_timestamp() + interval '10 s'
             where id = 1 and state = 'live' returning state"
                .to_owned()
        },
    },
    Statement {
        name: "give back",
        situations: &[Held, Over, Lost],
        columns: 2,
        sql: |_| filled(include_str!("../../../src/sql/give_back.sql"), &["100", "3"]),
    },
    Statement {
        name: "forget claims",
        situations: &[Held, Lost],
        columns: 0,
        sql: |_| include_str!("../../../src/sql/forget_claims.sql").to_owned(),
    },
    Statement {
        name: "cancel",
        situations: &[Ready, Held, Lost, Due, Ended],
        columns: 1,
        sql: |_| cancel("{1}"),
    },
    Statement {
        name: "cancel both",
        situations: &[Ready, Held, Lost, Due],
        columns: 1,
        sql: |_| cancel("{1,2}"),
    },
    Statement {
        name: "follow cancels",
        situations: &[Ready, Held, Due],
        columns: 1,
        sql: |_| "select stokehold.follow_cancels(100)".to_owned(),
    },
    Statement {
        name: "edit in its place",
        situations: &[Ready, Held, Lost, Due, Ended],
        columns: 1,
        sql: |_| edit("null", "null", "9"),
    },
    Statement {
        name: "edit to another lane",
        situations: &[Ready, Held, Due],
        columns: 1,
        sql: |_| edit("null", "1", "null"),
    },
    Statement {
        name: "edit to later",
        situations: &[Ready, Held, Due],
        columns: 1,
        sql: |_| edit("clock_timestamp() + interval '1 hour'", "null", "null"),
    },
    Statement {
        name: "edit to now",
        situations: &[Ready, Due],
        columns: 1,
        sql: |_| edit("clock_timestamp()", "null", "null"),
    },
    Statement {
        name: "tick",
        situations: &[Ready, Due],
        columns: 0,
        sql: |_| {
            let text = include_str!("../../../src/sql/tick.sql");
            filled(text, &["null", "100", "'{}'", "'{}'", "'{}'", "'-infinity'"])
        },
    },
    Statement {
        name: "look for strays",
        situations: &[Ready, Held, Lost, Due],
        columns: 1,
        sql: |_| strays(),
    },
    Statement {
        name: "pause",
        situations: &[Ready],
        columns: 1,
        sql: |_| "select stokehold.pause('kind', 'work')".to_owned(),
    },
    Statement {
        name: "retry",
        situations: &[Ready, Held, Ended],
        columns: 1,
        sql: |_| {
            "select answer from stokehold.retry_job(1, null, null, null, null, false)".to_owned()
        },
    },
];
