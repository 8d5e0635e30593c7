//! What the exit status of a command means.

use stokehold_domain::{FailureCode, Outcome, Problem, Verdict};

/// Input the handler will never take (`EX_DATAERR`).
const PERMANENT: i32 = 65;
/// Something it depends on is away (`EX_UNAVAILABLE`).
const UNAVAILABLE: i32 = 69;
/// Try again (`EX_TEMPFAIL`).
const RETRY: i32 = 75;
/// It is set up wrongly (`EX_CONFIG`).
const CONFIGURATION: i32 = 78;
/// The work is no longer wanted.
const CANCEL: i32 = 99;

/// The verdict of a status other than 0. The last lines of standard error are the message.
pub(crate) fn verdict(status: i32, last_lines: &[String]) -> Outcome {
    let said = last_lines.join("\n");
    let problem = |otherwise: &str, code: Option<&str>| Problem {
        code: code.map(str::to_owned),
        ..Problem::new(if said.is_empty() { otherwise } else { &said })
    };
    match status {
        PERMANENT => Outcome::Verdict(Verdict::Permanent(problem(
            "the handler left with status 65: its input will never do",
            None,
        ))),
        UNAVAILABLE => Outcome::Verdict(Verdict::Retry(problem(
            "the handler left with status 69: something it needs is unavailable",
            Some("unavailable"),
        ))),
        RETRY => Outcome::Verdict(Verdict::Retry(problem(
            "the handler left with status 75: try again",
            None,
        ))),
        CONFIGURATION => Outcome::Verdict(Verdict::Permanent(problem(
            "the handler left with status 78: it is not configured as it needs",
            Some("configuration"),
        ))),
        CANCEL => Outcome::Verdict(Verdict::Cancel(
            problem("the handler left with status 99: no longer wanted", None).message,
        )),
        other => {
            let message = if said.is_empty() {
                format!("the handler left with status {other} and said nothing on standard error")
            } else {
                format!("the handler left with status {other}: {said}")
            };
            Outcome::Failed(
                FailureCode::Exit,
                Problem::new(message).advice(
                    "its log has the rest. Leave with 65 for input that will never do, 75 to try \
                     again, 99 when the work is no longer wanted",
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_verdict_and_the_last_lines_are_its_message() {
        let said = ["card declined".to_owned()];
        for (status, code) in [
            (65, "handler.permanent"),
            (69, "handler.retry"),
            (75, "handler.retry"),
            (78, "handler.permanent"),
            (99, "handler.cancel"),
            (1, "handler.exit"),
            (-1, "handler.exit"),
        ] {
            let outcome = verdict(status, &said);
            assert_eq!(outcome.code(), code, "status {status}");
            assert!(outcome.problem().unwrap().message.contains("card declined"));
        }
        assert!(verdict(3, &[]).problem().unwrap().message.contains("status 3"));
    }
}
