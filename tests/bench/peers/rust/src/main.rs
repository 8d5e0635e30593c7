//! The Rust side of the comparison: apalis-postgres, and bare SQL as the bound for all.
//!
//! One invocation is one run: its only argument is a task in JSON, the database stands in
//! `DATABASE_URL`. What it says to the driver, and when, is in [`talk`].

mod apalis_run;
mod order;
mod sql;
mod talk;
mod task;

use anyhow::{Context, bail};

use task::{Phase, Task};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1).context("the only argument is a task in JSON")?;
    let task: Task = serde_json::from_str(&argument).context("reading the task")?;
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL names the database")?;
    match (task.system.as_str(), task.phase) {
        ("sql", Phase::Burn) => sql::burn(&task, &url).await,
        ("sql", Phase::Latency) => sql::latency(&task, &url).await,
        ("apalis", Phase::Burn) => apalis_run::burn(&task, &url).await,
        ("apalis", Phase::Latency) => apalis_run::latency(&task, &url).await,
        (other, _) => bail!("no system is called {other}"),
    }
}
