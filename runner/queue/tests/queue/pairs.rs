//! Every pair of statements of the protocol on the same jobs, by two connections, in every order: a
//! statement, the other one beside it, and then one ends and the other goes on.
//!
//! A statement is a row of the table in `statements.rs` and meets every other one that has a situation in
//! common with it. What each answers, whether it waits, and what becomes of the jobs is in the snapshot.

mod statements;

use std::fmt::Write;

use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};
use stokehold_queue::Plans;
use tokio::task::JoinSet;

use crate::support::{PATIENCE, Queue};
use statements::{STATEMENTS, Session, Situation, Statement};

/// What must be true whatever meets: each row is a fault.
const FAULTS: &str = "
  select 'job ' || id || ' is ' || live || ' times live and ' || ended || ' times ended' from (
    select id, (select count(*) from stokehold.jobs where jobs.id = made.id) as live,
      (select count(*) from stokehold.job_history h where h.id = made.id) as ended
    from generate_series(1, 2) as made(id)) found where live + ended <> 1
  union all
  select 'job ' || id || ' is ' || state || ', ' || ready || ' times ready, ' || held || ' times held' from (
    select id, state,
      (select count(*) from stokehold.ready r where r.job_id = job.id
        and r.kind_id = job.kind_id and r.priority = job.priority and r.position = job.position) as ready,
      (select count(*) from stokehold.claims c where job.id = any(c.job_ids) and job.token < c.token) as held
    from stokehold.jobs job) found
  where ready + held <> case when state = 'available' then 1 else 0 end
  union all
  select 'a ready row of job ' || job_id || ' is of no place' from stokehold.ready r
  where not exists (select from stokehold.jobs job where job.id = r.job_id and job.state = 'available'
    and job.kind_id = r.kind_id and job.priority = r.priority and job.position = r.position)
";

/// What became of the two jobs, in words.
const STATE: &str = "
  select string_agg(id || ' ' || word, ', ' order by id) from (
    select id, case when state <> 'running' then state::text else 'held by ' || runner_id end
      || case when lost > 0 then ' after ' || lost || ' losses' else '' end as word
    from stokehold.live_jobs
    union all select id, state::text from stokehold.job_history) jobs";

/// One order in which two meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// One after the other.
    Apart,
    /// The first ends while the second is under way.
    FirstCommits,
    /// The same, and it comes to nothing.
    FirstRollsBack,
    /// The second ends before the first, if it does not wait for it.
    SecondCommits,
    /// The same, and it comes to nothing.
    SecondRollsBack,
}

const ORDERS: [Order; 5] = [
    Order::Apart,
    Order::FirstCommits,
    Order::FirstRollsBack,
    Order::SecondCommits,
    Order::SecondRollsBack,
];

/// Two sessions of nodes, and one that watches.
struct Stage {
    first: PgConnection,
    second: Option<(PgConnection, i32)>,
    pool: PgPool,
}

/// What a statement answered: the columns that count, row by row.
async fn answer(connection: &mut PgConnection, statement: &Statement, session: Session) -> String {
    let sql = AssertSqlSafe((statement.sql)(session));
    let rows = sqlx::raw_sql(sql).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{}: {error}", statement.name));
    let word = |row: &sqlx::postgres::PgRow| {
        let column = |place| row.try_get_raw(place).ok()?.as_str().ok().map(str::to_owned);
        let columns = (0..row.len().min(statement.columns)).filter_map(column);
        columns.collect::<Vec<_>>().join("/")
    };
    let words: Vec<String> = rows.iter().map(word).filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
}

async fn run(connection: &mut PgConnection, sql: &'static str) {
    connection.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

impl Stage {
    async fn new(queue: &Queue) -> Stage {
        let first = Self::session(queue).await;
        let mut second = Self::session(queue).await;
        let backend = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut second);
        let backend: i32 = backend.await.unwrap();
        Stage { first, second: Some((second, backend)), pool: queue.pool.clone() }
    }

    async fn session(queue: &Queue) -> PgConnection {
        let mut session = queue.options.connect().await.unwrap();
        session.execute(Plans::Kept.settings()).await.unwrap();
        session
    }

    /// Plays the two in an order; `None` if they cannot be in it, because the second waits.
    async fn play(
        &mut self,
        situation: Situation,
        [one, other]: [&'static Statement; 2],
        order: Order,
    ) -> Option<String> {
        self.pool.execute(AssertSqlSafe(situation.sql())).await.unwrap();
        run(&mut self.first, "begin").await;
        let said = answer(&mut self.first, one, 1).await;
        if order == Order::Apart {
            run(&mut self.first, "commit").await;
        }
        let (mut second, backend) = self.second.take().expect("it is given back");
        let mut beside = tokio::spawn(async move {
            run(&mut second, "begin").await;
            let said = answer(&mut second, other, 2).await;
            (second, said)
        });
        let waits = loop {
            if beside.is_finished() {
                break Err((&mut beside).await.unwrap());
            }
            if is_waiting(&self.pool, backend).await {
                break Ok(());
            }
        };
        let (end_first, end_second) = match order {
            Order::FirstRollsBack => ("rollback", "commit"),
            Order::SecondRollsBack => ("commit", "rollback"),
            _ => ("commit", "commit"),
        };
        let second_first = matches!(order, Order::SecondCommits | Order::SecondRollsBack);
        let (mut second, replied, waited) = match waits {
            Err((mut second, replied)) => {
                if second_first {
                    run(&mut second, end_second).await;
                }
                (second, replied, false)
            }
            Ok(()) => {
                run(&mut self.first, end_first).await;
                let (second, replied) =
                    tokio::time::timeout(PATIENCE, beside).await.unwrap().unwrap();
                (second, replied, true)
            }
        };
        if !waited && order != Order::Apart {
            run(&mut self.first, end_first).await;
        }
        if waited || !second_first {
            run(&mut second, end_second).await;
        }
        self.second = Some((second, backend));
        assert!(!(waited && order == Order::Apart), "{} waits for nobody", other.name);
        let beside = if waited { "waits and " } else { "" };
        self.check(situation, [one, other], order).await;
        let state: String = sqlx::query_scalar(STATE).fetch_one(&self.pool).await.unwrap();
        (!(waited && second_first)).then(|| {
            format!("{}: {said}; {} {beside}says {replied}; {state}", one.name, other.name)
        })
    }

    async fn check(&self, situation: Situation, pair: [&Statement; 2], order: Order) {
        let faults: Vec<String> = sqlx::query_scalar(FAULTS).fetch_all(&self.pool).await.unwrap();
        let [one, other] = pair.map(|statement| statement.name);
        assert!(faults.is_empty(), "{situation:?}, {one} and {other}, {order:?}: {faults:?}");
    }
}

/// Whether the session waits for a lock.
async fn is_waiting(pool: &PgPool, backend: i32) -> bool {
    let waits = "select exists (select from pg_locks where pid = $1 and not granted)";
    sqlx::query_scalar(waits).bind(backend).fetch_one(pool).await.unwrap()
}

/// All pairs of one situation, in all orders.
async fn play_all(situation: Situation) -> String {
    let queue = Queue::new().await;
    queue.kind("work").await;
    let mut stage = Stage::new(&queue).await;
    let here: Vec<&'static Statement> =
        STATEMENTS.iter().filter(|statement| statement.situations.contains(&situation)).collect();
    let mut script = String::new();
    for one in &here {
        for other in &here {
            for order in ORDERS {
                let line = stage.play(situation, [one, other], order).await;
                // What comes of the others is known by what must be true; to read them all is too much.
                if let (Some(line), Order::FirstCommits) = (line, order) {
                    writeln!(script, "{line}").unwrap();
                }
            }
        }
    }
    format!("{situation:?}\n{script}")
}

#[tokio::test]
async fn every_pair_of_statements_leaves_each_job_in_one_place_in_every_order() {
    let mut playing = JoinSet::new();
    for (place, situation) in Situation::ALL.into_iter().enumerate() {
        playing.spawn(async move { (place, play_all(situation).await) });
    }
    let mut scripts = playing.join_all().await;
    scripts.sort_unstable();
    let scripts: Vec<String> = scripts.into_iter().map(|(_, script)| script).collect();
    insta::assert_snapshot!(scripts.join("\n"));
}
