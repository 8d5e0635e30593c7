//! Write Stokehold job handlers in Rust.
//!
//! A handler is one function with one attribute. Its payload arrives as a type of yours, what it
//! returns becomes the job's result, and an error says what the queue should do next.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use stokehold_sdk::{Failure, Job, log};
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     id: u64,
//!     cents: i64,
//! }
//!
//! #[derive(Serialize)]
//! struct Receipt {
//!     order: u64,
//!     charged: i64,
//! }
//!
//! # #[cfg(any())] // one handler a module: the tests of this page share one
//! #[stokehold_sdk::handler]
//! # fn with_attribute() {}
//! fn charge(job: Job<Order>) -> Result<Receipt, Failure> {
//!     let order = job.payload;
//!     if order.cents <= 0 {
//!         return Err(Failure::permanent("nothing to charge").code("empty-order"));
//!     }
//!     log::info!(order = order.id; "charging {} cents", order.cents);
//!     let charged = "1250".parse::<i64>()?; // any other error: try again later
//!     Ok(Receipt { order: order.id, charged })
//! }
//! # let job = Job::sample(Order { id: 7, cents: 1250 });
//! # assert_eq!(charge(job).unwrap().charged, 1250);
//! ```
//!
//! Build it as a `cdylib` for `wasm32-wasip1` and push it:
//!
//! ```text
//! cargo build --release --target wasm32-wasip1
//! stokehold push target/wasm32-wasip1/release/charge.wasm --kind order.charge
//! ```
//!
//! | you write | the queue does |
//! |---|---|
//! | `Ok(value)` | stores the value as JSON ([`Blob`]: as it is; `()` and `None`: nothing) |
//! | `some_call()?` | [`Failure::retry`]: again after the kind's back-off |
//! | [`Failure::retry_after`] | again, no sooner than the delay |
//! | [`Failure::permanent`] | never again: the input is wrong (also a payload that does not parse) |
//! | [`Failure::snooze`] | later, without counting this attempt |
//! | [`Failure::cancel`] | ends without alarm: nobody wants the work any more |
//! | a panic | again after the back-off; the panic's message is the job's error |
//!
//! The other modules are what a handler may ask of its host; each becomes an import of the
//! compiled module only when used, and the list of imports is the list of permissions.

pub mod bindings;
pub mod context;
mod failure;
mod job;
pub mod log;
mod output;
mod payload;
pub mod progress;
pub mod spawn;
#[cfg(feature = "tracing")]
mod tracing;

pub use failure::{Failure, Problem};
pub use job::Job;
pub use output::{Output, Reply};
pub use payload::{Blob, Payload};
pub use stokehold_sdk_macros::handler;

/// What the attribute expands to; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings;
    pub use crate::bindings::export_handler as export;
    pub use crate::bindings::exports::stokehold::job::handler::Guest;
    pub use crate::bindings::stokehold::job::types::{Blob, Job, Verdict};
    pub use crate::job::run;
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    #[test]
    fn the_bindings_were_made_from_the_contract_as_it_is_now() {
        let digest = Sha256::digest(include_bytes!("../../wit/handler.wit"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("//! handler.wit: {digest}");
        let bindings = include_str!("bindings.rs");
        assert!(bindings.contains(&line), "the contract changed: run scripts/generate-bindings");
    }
}
