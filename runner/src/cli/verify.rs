//! `stokehold verify`: whether the database is as it has to be.

use std::time::Duration;

use serde::Serialize;
use stokehold_queue::verify::Verified;

use super::database::DatabaseArgs;
use super::fault::Fault;
use super::output::Output;
use super::text::one_line;
use super::units;

/// Check that the database is as it has to be
///
/// Asks for every invariant of the queue in one snapshot, reads only, and may run beside everything else. Ends with 1
/// when one is broken or could not be checked.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  DATABASE_URL=postgres://stokehold@db/jobs stokehold verify
  stokehold verify --days 30 --json | jq '.invariants[] | select(.broken != 0)'")]
pub(crate) struct Args {
    /// How many days of history to look at
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=3650))]
    days: i32,
    /// How long one check may take
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::parse_duration)]
    limit: Duration,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Serialize)]
struct Document {
    invariants: Vec<Line>,
}

/// One invariant, and what came of it.
#[derive(Serialize)]
struct Line {
    name: &'static str,
    says: &'static str,
    /// How many things break it; null when the check took too long.
    broken: Option<i64>,
    examples: Vec<String>,
}

impl From<Verified> for Line {
    fn from(verified: Verified) -> Self {
        let Verified { invariant, broken, examples } = verified;
        Line { name: invariant.name, says: invariant.says, broken, examples }
    }
}

/// Verifies, and says what is wrong.
pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<()> {
    let database = args.database.connect().await?;
    database.check_schema().await?;
    let verified = database.verify(args.days, args.limit).await?;
    let invariants: Vec<Line> = verified.into_iter().map(Line::from).collect();
    let wrong = invariants.iter().filter(|line| line.broken != Some(0)).count();
    if output.is_json() {
        output.document(&Document { invariants })?;
    } else {
        output.table(
            ["INVARIANT", "BROKEN", "WHAT HAS TO HOLD", "FOR EXAMPLE"],
            invariants.iter().map(|line| {
                let limit = units::duration(args.limit);
                let broken = match line.broken {
                    Some(number) => units::grouped(number.unsigned_abs()),
                    None => format!("not checked within {limit}"),
                };
                let examples: Vec<String> = line.examples.iter().map(|id| one_line(id)).collect();
                [line.name.to_owned(), broken, line.says.to_owned(), examples.join(", ")]
            }),
        )?;
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(Fault::broken(format!("{wrong} invariants are broken or were not checked"))
            .hint("Keep a copy of the database before anything else, and report what you see.")
            .into()),
    }
}
