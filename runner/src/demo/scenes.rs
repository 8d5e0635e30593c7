//! The demo's groups of jobs: what each is given and how it has to end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::ImageFormat;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use stokehold_api::wire::{KindChange, LimitsChange, NewJob};
use stokehold_domain::JobState;

use super::inputs;

/// A kind that the demo makes, and the module under it.
pub(crate) struct Handler {
    /// The kind's name.
    pub(crate) kind: &'static str,
    /// The module's file.
    pub(crate) file: &'static str,
    /// Policy other than the default.
    pub(crate) policy: KindChange,
    /// Limits other than the defaults.
    pub(crate) limits: LimitsChange,
}

/// Jobs that have the same thing done to them and end alike.
pub(crate) struct Scene {
    /// What people read in the table.
    pub(crate) title: &'static str,
    /// The jobs.
    pub(crate) jobs: Vec<NewJob>,
    /// The state each has to end in.
    pub(crate) state: JobState,
    /// The outcome each has to end with.
    pub(crate) outcome: &'static str,
    /// The attempt that has to be the last.
    pub(crate) attempt: u16,
}

const THUMBNAIL: &str = "image.resize";
const ORDERS: &str = "orders.report";
const PROBE: &str = "demo.probe";

/// The two real handlers, and one that does whatever it is told, good or bad.
pub(crate) fn handlers() -> [Handler; 3] {
    let real = |kind, file| Handler {
        kind,
        file,
        policy: KindChange::default(),
        limits: LimitsChange::default(),
    };
    [
        real(THUMBNAIL, "image-resize.wasm"),
        real(ORDERS, "orders-report.wasm"),
        Handler {
            kind: PROBE,
            file: "probe.wasm",
            policy: KindChange {
                max_attempts: Some(2),
                backoff_base_ms: Some(200),
                ..KindChange::default()
            },
            limits: LimitsChange {
                fuel: Some(2_000_000_000),
                timeout_ms: Some(2_000),
                memory_bytes: Some(32 << 20),
                ..LimitsChange::default()
            },
        },
    ]
}

/// About two hundred jobs.
pub(crate) fn scenes() -> anyhow::Result<Vec<Scene>> {
    let pictures = |format: ImageFormat, media_type| {
        let picture =
            move |n| anyhow::Ok(bytes(THUMBNAIL, &inputs::picture(n, format)?, media_type));
        (0..60).map(picture).collect::<anyhow::Result<Vec<NewJob>>>()
    };
    let done =
        |title, jobs| Scene { title, jobs, state: JobState::Completed, outcome: "ok", attempt: 1 };
    let failed = |title, jobs, outcome, attempt| Scene {
        title,
        jobs,
        state: JobState::Discarded,
        outcome,
        attempt,
    };
    let csv = |n| bytes(ORDERS, inputs::orders_csv(n).as_bytes(), "text/csv");
    let broken_csv = "order_id,date,customer,product,quantity,unit_price,currency\n1,2026-11-30,Ann,Tea,two,4.50,EUR\n";
    let garbage = vec![
        bytes(THUMBNAIL, b"\xff\xd8\xffthis was never a picture", "image/jpeg"),
        bytes(THUMBNAIL, b"nor this", "image/png"),
    ];
    Ok(vec![
        done("thumbnails of JPEG pictures", pictures(ImageFormat::Jpeg, "image/jpeg")?),
        done("thumbnails of PNG pictures", pictures(ImageFormat::Png, "image/png")?),
        done("reports on orders in CSV", (0..40).map(csv).collect()),
        done(
            "reports on orders in JSON",
            (0..30).map(|n| document(ORDERS, &inputs::orders_json(n))).collect::<Result<_, _>>()?,
        ),
        Scene {
            attempt: 2,
            ..done("fails once, then works", probes(3, &json!({"do": "fail-until", "attempt": 2}))?)
        },
        failed("a picture that is none", garbage, "handler.permanent", 1),
        failed(
            "a broken order file",
            vec![bytes(ORDERS, broken_csv.as_bytes(), "text/csv")],
            "handler.permanent",
            1,
        ),
        failed("loops for ever", probes(2, &json!({"do": "spin"}))?, "limit.fuel", 1),
        failed(
            "sleeps for an hour",
            probes(2, &json!({"do": "sleep", "ms": 3_600_000}))?,
            "limit.time",
            2,
        ),
        failed("allocates without end", probes(2, &json!({"do": "allocate"}))?, "limit.memory", 2),
        failed(
            "panics",
            probes(2, &json!({"do": "panic", "message": "the printer is on fire"}))?,
            "handler.panic",
            2,
        ),
        failed(
            "is sent garbage",
            probes(2, &json!({"do": "what nobody knows"}))?,
            "handler.permanent",
            1,
        ),
    ])
}

fn bytes(kind: &str, payload: &[u8], media_type: &str) -> NewJob {
    NewJob {
        kind: kind.to_owned(),
        payload_base64: Some(STANDARD.encode(payload)),
        media_type: Some(media_type.to_owned()),
        ..NewJob::default()
    }
}

fn document(kind: &str, payload: &Value) -> anyhow::Result<NewJob> {
    Ok(NewJob { kind: kind.to_owned(), payload: Some(to_raw_value(payload)?), ..NewJob::default() })
}

fn probes(count: usize, payload: &Value) -> anyhow::Result<Vec<NewJob>> {
    (0..count).map(|_| document(PROBE, payload)).collect()
}
