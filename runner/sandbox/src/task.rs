//! The task around an attempt: what happens when the host itself fails, or nobody waits any more.

use std::any::Any;
use std::time::Duration;

use stokehold_domain::{HandBack, Outcome, Problem, Receipt};
use tokio::task::JoinHandle;

use crate::control::lock;
use crate::{Control, Report};

/// A task that is stopped when nobody waits for it any more.
pub(crate) struct Running(pub(crate) JoinHandle<Report>);

impl Running {
    pub(crate) async fn join(mut self) -> Report {
        (&mut self.0).await.unwrap_or_else(|_| {
            let message = "the sandbox went away while the handler ran";
            handed_back(HandBack::HostFault, Problem::new(message), &Control::new())
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What to say of a panic in the host, which is no fault of the handler.
pub(crate) fn broken(panic: &(dyn Any + Send), control: &Control) -> Report {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = text, "the host panicked while it ran a handler");
    let message = format!("a fault in the node, not in the handler: {text}");
    handed_back(HandBack::HostFault, Problem::new(message), control)
}

pub(crate) fn no_slot(slots: usize, waited: Duration) -> Report {
    let message = format!("all {slots} slots of the node stayed taken for {} s", waited.as_secs());
    let problem = Problem::new(message).advice("it runs again elsewhere or later");
    handed_back(HandBack::PoolFull, problem, &Control::new())
}

fn handed_back(reason: HandBack, problem: Problem, control: &Control) -> Report {
    Report {
        outcome: Outcome::HandedBack(reason, problem),
        receipt: Receipt::default(),
        log: lock(&control.0.log).close(),
    }
}
