//! Proof at start that this sandbox can stop a guest: everything else rests on it.

use std::sync::mpsc;
use std::time::Duration;

use stokehold_domain::{Attempt, Blob, Digest, FailureCode, Limits, Outcome};

use crate::{Control, Sandbox, StartError};

/// `(module (func (export "_start") (loop (br 0))))`
const ENDLESS_LOOP: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x07\x0a\x01\x06_start\0\0\
    \x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

/// The loop's own limit.
const TIMEOUT_MS: u64 = 20;
/// How long to wait for it to end before giving up on this sandbox.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn endless_loop_is_stopped(sandbox: &Sandbox) -> Result<(), StartError> {
    let failed = |why: String| StartError::SelfTest(why);
    let handler = sandbox
        .compiler()
        .compile(Digest([0; 32]), ENDLESS_LOOP)
        .map_err(|refusal| failed(format!("the test module was refused: {refusal}")))?;
    let (sender, ended) = mpsc::channel();
    let runner = sandbox.clone();
    sandbox.guests().spawn(async move {
        let attempt = Attempt::local("self-test", Blob::json("null"), 0);
        let limits = Limits { timeout_ms: TIMEOUT_MS, ..Limits::CEILING };
        let report = runner.run(&handler, attempt, &limits, Control::new()).await;
        // The receiver is gone only if patience ran out.
        let _ = sender.send(report.outcome);
    });
    match ended.recv_timeout(PATIENCE) {
        Ok(Outcome::Failed(FailureCode::Time, _)) => Ok(()),
        Ok(other) => Err(failed(format!(
            "an endless loop under a limit of {TIMEOUT_MS} ms ended as {}",
            other.code()
        ))),
        Err(_) => Err(failed(format!(
            "an endless loop under a limit of {TIMEOUT_MS} ms still ran after {} s",
            PATIENCE.as_secs()
        ))),
    }
}
