//! What an attempt costs beside the guest's own work. Run it with
//! `cargo test --release -p stokehold-sandbox -- --ignored --nocapture cost`.

use std::fs;
use std::time::Instant;

use stokehold_domain::Limits;
use stokehold_sandbox::{Control, Handler, Sandbox, SandboxConfig};

use crate::guests;

const RUNS: u32 = 20_000;

/// Wall and processor time of an attempt, in microseconds.
type Cost = (f64, f64);

fn cost(began: Instant, cpu: f64) -> Cost {
    let each = 1e6 / f64::from(RUNS);
    (began.elapsed().as_secs_f64() * each, (cpu_seconds() - cpu) * each)
}

/// Processor time of this process, all threads, in seconds (the kernel counts in hundredths).
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = text.rsplit_once(')').unwrap();
    let ticks =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() / 100.0
}

async fn alone_us(sandbox: &Sandbox, handler: &Handler) -> Cost {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..RUNS {
        let report = guests::run(sandbox, handler, &Limits::DEFAULT).await;
        assert_eq!(report.outcome.code(), "ok");
    }
    cost(began, cpu)
}

async fn together_us(sandbox: &Sandbox, handler: &Handler) -> Cost {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let lanes: Vec<_> = (0..16)
        .map(|_| {
            let (sandbox, handler) = (sandbox.clone(), handler.clone());
            tokio::spawn(async move {
                for _ in 0..RUNS / 16 {
                    let attempt = guests::attempt(b"null");
                    let run = sandbox.run(&handler, attempt, &Limits::DEFAULT, Control::new());
                    assert_eq!(run.await.outcome.code(), "ok");
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    cost(began, cpu)
}

#[tokio::test]
#[ignore = "a measurement, not a test"]
async fn cost_of_a_handler_that_does_nothing() {
    let config = SandboxConfig { slots: 64, guest_threads: 1, ..SandboxConfig::default() };
    let sandbox = guests::sandbox(config);
    let component = include_str!("../../../../tests/guests/noop/noop.wat");
    let component = guests::load(&sandbox, component).await;
    let command = guests::load(&sandbox, guests::NOOP).await;
    let echo = guests::load(&sandbox, include_str!("../cases/echo/guest.wat")).await;
    for (name, handler) in [("component", component), ("command", command), ("echo", echo)] {
        alone_us(&sandbox, &handler).await;
        let alone = alone_us(&sandbox, &handler).await;
        let together = together_us(&sandbox, &handler).await;
        for (how, (wall, cpu)) in [("one after another", alone), ("16 at once", together)] {
            println!("{name}, {how}: {wall:.1} µs, {cpu:.1} µs of CPU");
        }
    }
}
